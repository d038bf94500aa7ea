//! How often everything is looked at, and for how long a look is good. Time comes in as a number: which clock it is from
//! is the caller's to see to.

use std::time::Duration;

/// While API servers disagree or a group can't be read, everything is looked at this often, to go on soon afterwards.
const UNCLEAR: Duration = Duration::from_secs(30);
/// What an API server was told, or it comes back with, may show in its discovery only a while later: after this long it
/// is looked at once more.
const ECHO: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    /// A storage version that changes and changes back within it may be missed where nothing can be watched.
    pub period: Duration,
    /// How old a heartbeat may be at the first look at it. That of somebody who ran before: the period, unless nobody
    /// else can have changed anything since.
    pub first: Duration,
}

impl Rhythm {
    /// From one look at everything to the next. Twice in a period, so that no heartbeat is older than half of it: whoever
    /// is restarted has the other half to come back in and is still believed.
    pub fn next_in(&self, unclear: bool, echo: bool) -> Duration {
        let soon = match (unclear, echo) {
            (_, true) => ECHO,
            (true, false) => UNCLEAR,
            (false, false) => self.period,
        };
        soon.min(self.period / 2)
    }

    /// Whether so much time passed since the last look that a storage version may have come and gone. Both by a clock
    /// that nobody sets, and that goes on while the machine sleeps: after a suspension nothing has happened by any
    /// other, and heartbeats are compared with a clock that may be set right a moment later.
    pub fn slept_through(&self, looked: Duration, now: Duration) -> bool {
        now.saturating_sub(looked) > self.period * 2
    }

    /// How old a heartbeat may be, in seconds. One that was written here is judged by [`Self::slept_through`] as well.
    pub fn patience(&self, looked_before: bool) -> i64 {
        let patience = if looked_before { self.period * 2 } else { self.first };
        i64::try_from(patience.as_secs()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const RHYTHM: Rhythm = Rhythm { period: Duration::from_secs(600), first: Duration::from_secs(600) };

    #[test]
    fn a_restart_at_any_moment_finds_heartbeats_that_are_believed() {
        let between = RHYTHM.next_in(false, false);
        let patience = Duration::from_secs(RHYTHM.patience(false).unsigned_abs());
        // Killed just before a look, and away for up to as long as it takes to the next.
        for away in [Duration::ZERO, MINUTE, between] {
            assert!(between + away <= patience, "{away:?}");
        }
        for (unclear, echo) in [(true, false), (false, true), (true, true)] {
            assert!(RHYTHM.next_in(unclear, echo) < between);
        }
        let hasty = Rhythm { period: Duration::from_secs(1), ..RHYTHM };
        assert_eq!(hasty.next_in(true, true), Duration::from_millis(500));
    }

    #[test]
    fn a_machine_that_was_suspended_knows_that_it_missed_something() {
        // Looks at minutes 0 and 5 since boot; then the machine sleeps.
        let looked = MINUTE * 5;
        for (woken, missed) in
            [(MINUTE * 6, false), (MINUTE * 25, false), (MINUTE * 26, true), (MINUTE * 600, true)]
        {
            assert_eq!(RHYTHM.slept_through(looked, woken), missed, "{woken:?}");
        }
        // A clock that would go back says that no time has passed.
        assert!(!RHYTHM.slept_through(looked, Duration::ZERO));
    }

    #[test]
    fn an_ordinary_pause_between_two_looks_is_no_suspension() {
        for (unclear, echo) in [(false, false), (true, false), (false, true)] {
            let next = RHYTHM.next_in(unclear, echo);
            // Even if a look takes longer than the pause before it.
            assert!(!RHYTHM.slept_through(MINUTE, MINUTE + next * 3));
        }
    }
}
