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
}

const FIRST: usize = 4;
/// Answers that take this many times the best are a sign of strain, if they also take long in themselves.
const STRAINED: u32 = 8;
const LONG: Duration = Duration::from_millis(250);

impl Pace {
    /// `ceiling` is at least one.
    pub fn new(ceiling: usize) -> Self {
        let ceiling = ceiling.max(1);
        let at_once = FIRST.min(ceiling);
        Self { ceiling, at_once, answers: 0, taken: Duration::ZERO, best: None, careful: false }
    }

    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// An answer came after this long, whatever it was.
    pub fn answered(&mut self, after: Duration) {
        self.answers += 1;
        self.taken += after;
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
        self.careful = true;
        self.set(self.at_once / 2);
    }

    fn set(&mut self, at_once: usize) {
        self.at_once = at_once.clamp(1, self.ceiling);
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
