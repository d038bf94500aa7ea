//! What was done, and from where to go on: everything before the token is done, or among the failures.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// As of the token.
    settled: Counts,
    token: Option<String>,
    /// Pages after the token, in order.
    pages: VecDeque<OpenPage>,
    /// Pages that are settled; also the number of the first open one.
    closed: u64,
    /// Of everything, for people.
    pub migrated: u64,
    pub failed: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    pub migrated: u64,
    pub failed: u64,
    /// The first of those that failed.
    pub failures: Vec<String>,
}

#[derive(Debug)]
struct OpenPage {
    next: Option<String>,
    unsettled: usize,
    counts: Counts,
}

/// Enough to see what is wrong; a status that lists thousands is no status.
pub(super) const FAILURES_NAMED: usize = 20;

impl Tally {
    /// Goes on from what an interrupted run left.
    pub fn resume(token: Option<String>, settled: Counts) -> Self {
        let (migrated, failed) = (settled.migrated, settled.failed);
        Self { settled, token, migrated, failed, ..Self::default() }
    }

    /// A page was read; gives its number, by which its objects are settled.
    pub fn open(&mut self, objects: usize, next: Option<String>) -> u64 {
        let number = self.closed + self.pages.len() as u64;
        self.pages.push_back(OpenPage { next, unsettled: objects, counts: Counts::default() });
        self.fold();
        number
    }

    pub fn migrated(&mut self, page: u64) {
        self.migrated += 1;
        self.settle(page, |counts| counts.migrated += 1);
    }

    pub fn failed(&mut self, page: u64, why: impl FnOnce() -> String) {
        self.failed += 1;
        self.settle(page, |counts| {
            counts.failed += 1;
            if counts.failures.len() < FAILURES_NAMED {
                counts.failures.push(why());
            }
        });
    }

    fn settle(&mut self, page: u64, count: impl FnOnce(&mut Counts)) {
        let index = usize::try_from(page.wrapping_sub(self.closed)).unwrap_or(usize::MAX);
        if let Some(page) = self.pages.get_mut(index) {
            count(&mut page.counts);
            page.unsettled = page.unsettled.saturating_sub(1);
        }
        self.fold();
    }

    fn fold(&mut self) {
        // The last page leads nowhere: it stays open, so that whoever goes on repeats that page, and not everything.
        while let Some(page) = self.pages.pop_front_if(|page| page.unsettled == 0 && page.next.is_some()) {
            self.closed += 1;
            self.token = page.next;
            self.settled.add(page.counts);
        }
    }

    /// Everything, after the last object.
    pub fn total(mut self) -> Counts {
        self.pages.drain(..).for_each(|page| self.settled.add(page.counts));
        self.settled
    }

    /// Where a later run goes on; none before the first page is settled.
    pub fn token(&self) -> Option<&String> {
        self.token.as_ref()
    }

    pub fn settled(&self) -> &Counts {
        &self.settled
    }
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.migrated += more.migrated;
        self.failed += more.failed;
        let room = FAILURES_NAMED.saturating_sub(self.failures.len());
        self.failures.extend(more.failures.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_passed_only_when_everything_before_it_is_settled() {
        let mut tally = Tally::default();
        let first = tally.open(2, Some("b".into()));
        let second = tally.open(1, Some("c".into()));
        tally.migrated(second);
        tally.migrated(first);
        assert_eq!((tally.token(), tally.settled().migrated, tally.migrated), (None, 0, 2));
        tally.failed(first, || "x: refused".into());
        assert_eq!(tally.token().unwrap(), "c");
        let settled = Counts { migrated: 2, failed: 1, failures: vec!["x: refused".into()] };
        assert_eq!(*tally.settled(), settled);
    }

    #[test]
    fn counts_go_on_after_an_interruption() {
        let failures = vec!["a: refused".to_owned()];
        let mut tally = Tally::resume(Some("m".into()), Counts { migrated: 7, failed: 1, failures });
        assert_eq!(tally.token().unwrap(), "m");
        for number in 0..50 {
            let page = tally.open(1, Some("n".into()));
            tally.failed(page, || format!("{number}: refused"));
        }
        let last = tally.open(1, None);
        tally.migrated(last);
        assert_eq!((tally.token().unwrap().as_str(), tally.settled().migrated, tally.migrated), ("n", 7, 8));
        let total = tally.total();
        assert_eq!((total.migrated, total.failed, total.failures.len()), (8, 51, FAILURES_NAMED));
    }
}
