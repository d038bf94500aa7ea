//! How many writes may be under way at once: more while the server keeps up, half when it says that it has enough, fewer
//! when answers take much longer than they could.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq)]
pub struct Pace {
    ceiling: usize,
    at_once: usize,
    /// Answers since the number was last changed.
    answers: usize,
    /// The time that those answers took, together.
    taken: Duration,
    /// The shortest mean of a round so far: what the server can do when it is not busy.
    best: Option<Duration>,
    /// Until the first sign of strain the number doubles from round to round.
    careful: bool,
    /// So many were too many for the server.
    too_many: Option<usize>,
    /// Answers below that before it is tried again: twice as many after each time that it was still too many.
    hold: usize,
    /// Answers since it was found to be too many.
    held: usize,
}

const FIRST: usize = 4;
/// Answers that take this many times the best are a sign of strain, if they also take long in themselves.
const STRAINED: u32 = 8;
const LONG: Duration = Duration::from_millis(250);
/// Every try beyond what a server takes costs a pause of all; so it is tried rarely, and more and more so.
const FIRST_HOLD: usize = 500;
const LONGEST_HOLD: usize = 64_000;

impl Pace {
    /// `ceiling` is at least one.
    pub fn new(ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        let at_once = FIRST.min(ceiling);
        Self {
            ceiling,
            at_once,
            answers: 0,
            taken: Duration::ZERO,
            best: None,
            careful: false,
            too_many: None,
            hold: FIRST_HOLD,
            held: 0,
        }
    }

    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// An answer came after this long, whatever it was.
    pub fn answered(&mut self, after: Duration) {
        self.answers += 1;
        self.taken += after;
        self.held += 1;
        if self.too_many.is_some() && self.held >= self.hold {
            self.too_many = None;
        }
        // A round is as many answers as were under way: they all felt the same load.
        if self.answers < self.at_once {
            return;
        }
        let mean = self.taken / u32::try_from(self.answers).unwrap_or(u32::MAX);
        let best = self.best.map_or(mean, |best| best.min(mean));
        self.best = Some(best);
        if mean > LONG && mean > best * STRAINED {
            self.careful = true;
            self.set(self.at_once * 3 / 4);
        } else if self.careful {
            self.set(self.at_once + 1);
        } else {
            self.set(self.at_once * 2);
        }
    }

    /// The server said that it has enough.
    pub fn throttled(&mut self) {
        if self.careful && self.too_many.is_none() {
            self.hold = (self.hold * 2).min(LONGEST_HOLD);
        }
        self.careful = true;
        self.too_many = Some(self.at_once);
        self.held = 0;
        self.set(self.at_once / 2);
    }

    fn set(&mut self, at_once: usize) {
        let most = self.too_many.map_or(self.ceiling, |too_many| self.ceiling.min(too_many - 1));
        self.at_once = at_once.clamp(1, most.max(1));
        self.answers = 0;
        self.taken = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(5);

    fn rounds(pace: &mut Pace, count: usize, after: Duration) {
        for _ in 0..count {
            for _ in 0..pace.at_once() {
                pace.answered(after);
            }
        }
    }

    #[test]
    fn it_reaches_the_ceiling_in_a_few_rounds_and_never_passes_it() {
        let mut pace = Pace::new(16);
        rounds(&mut pace, 2, QUICK);
        assert_eq!(pace.at_once(), 16);
        rounds(&mut pace, 10, QUICK);
        assert_eq!(pace.at_once(), 16);
        assert_eq!(Pace::new(0).at_once(), 1);
    }

    #[test]
    fn it_halves_when_told_to_and_comes_back_one_by_one() {
        let mut pace = Pace::new(16);
        rounds(&mut pace, 3, QUICK);
        pace.throttled();
        assert_eq!(pace.at_once(), 8);
        rounds(&mut pace, 2, QUICK);
        assert_eq!(pace.at_once(), 10);
        (0..10).for_each(|_| pace.throttled());
        assert_eq!(pace.at_once(), 1);
    }

    #[test]
    fn what_was_too_many_is_tried_again_rarely_and_more_and_more_so() {
        // A server that takes four at once.
        let mut pace = Pace::new(16);
        let (mut refused, mut answered) = (0, 0);
        let mut refused_later = 0;
        while answered < 50_000 {
            if pace.at_once() > 4 {
                pace.throttled();
                refused += 1;
                refused_later += usize::from(answered > 25_000);
            } else {
                pace.answered(QUICK);
                answered += 1;
            }
        }
        assert!(refused <= 10, "{refused}");
        assert!(refused_later <= 1, "{refused_later}");
        assert_eq!(pace.at_once(), 4);
    }

    #[test]
    fn slow_answers_make_it_step_back() {
        let mut pace = Pace::new(16);
        rounds(&mut pace, 3, QUICK);
        rounds(&mut pace, 1, Duration::from_secs(2));
        assert_eq!(pace.at_once(), 12);
        // A server that was never quicker is not strained, only far away.
        let mut far = Pace::new(16);
        rounds(&mut far, 3, Duration::from_secs(2));
        assert_eq!(far.at_once(), 16);
    }
}
