//! How long something that failed is left alone. In memory only: whoever starts anew may try at once.

use std::collections::BTreeMap;

use logic::images::{Backoff, ImageName};

/// Milliseconds; doubled with each failure.
const FIRST: u64 = 2_000;
const LONGEST: u64 = 300_000;
/// More is not kept; the oldest are tried again early.
const MOST: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Retries {
    all: BTreeMap<(String, ImageName), Retry>,
}

#[derive(Debug, Clone, Copy)]
struct Retry {
    failures: u32,
    until: u64,
}

impl Retries {
    pub fn failed(&mut self, manager: &str, about: &ImageName, now: u64) {
        if self.all.len() >= MOST {
            self.all.pop_first();
        }
        let key = (manager.to_owned(), about.clone());
        let retry = self.all.entry(key).or_insert(Retry { failures: 0, until: 0 });
        // What fails while it rests is the same failure, seen twice.
        if retry.until <= now {
            let wait = FIRST.saturating_mul(1 << retry.failures.min(20)).min(LONGEST);
            *retry = Retry { failures: retry.failures + 1, until: now + wait };
        }
    }

    pub fn worked(&mut self, manager: &str, about: &ImageName) {
        self.all.remove(&(manager.to_owned(), about.clone()));
    }

    /// Everything of a manager may be tried at once: it is a new process.
    pub fn forget(&mut self, manager: &str) {
        self.all.retain(|(of, _), _| of != manager);
    }

    pub fn resting(&self, now: u64) -> Backoff {
        self.all.iter().filter(|(_, retry)| retry.until > now).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_rests_twice_as_long_and_what_worked_not_at_all() {
        let name = ImageName::parse("a").expect("a name");
        let mut retries = Retries::default();
        retries.failed("m", &name, 0);
        retries.failed("m", &name, 1000);
        assert!(retries.resting(1999).contains(&("m".to_owned(), name.clone())));
        assert!(retries.resting(2000).is_empty());
        retries.failed("m", &name, 2000);
        assert!(!retries.resting(5999).is_empty());
        assert!(retries.resting(6000).is_empty());
        for round in 1..40_u64 {
            retries.failed("m", &name, round * 10_000_000);
        }
        assert!(retries.resting(390_000_000 + LONGEST).is_empty());
        retries.failed("m", &name, 500_000_000);
        retries.worked("m", &name);
        assert!(retries.resting(500_000_000).is_empty());
    }
}
