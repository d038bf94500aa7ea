//! How long to wait before a program that ended is started again. Pure.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// A program that ran for so long has not failed at starting.
const SETTLED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    pub fn new() -> Self {
        Self { next: FIRST }
    }

    pub fn after(&mut self, up: Duration) -> Duration {
        if up >= SETTLED {
            self.next = FIRST;
        }
        let now = self.next;
        self.next = (now * 2).min(LONGEST);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_half_a_minute_and_begins_anew_after_a_minute_up() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..12).map(|_| backoff.after(Duration::from_secs(59)).as_millis()).collect();
        assert_eq!(waits[..5], [100, 200, 400, 800, 1600]);
        assert_eq!(waits[9..], [30_000; 3]);
        assert_eq!(backoff.after(Duration::from_secs(60)), FIRST);
        assert_eq!(backoff.after(Duration::ZERO), FIRST * 2);
    }
}
