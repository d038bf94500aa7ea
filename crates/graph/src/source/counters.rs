//! What looking at a source cost: plain counters, for whoever shows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Since the start, except where it says last.
#[derive(Debug, Default)]
pub struct ScrapeCounters {
    pub scrapes: AtomicU64,
    pub failures: AtomicU64,
    pub last_duration_millis: AtomicU64,
    /// Tags, or nodes of a ready-made graph, that the last good look saw.
    pub last_tags: AtomicU64,
    /// Releases that the last good look gave.
    pub last_releases: AtomicU64,
    pub heads: AtomicU64,
    pub gets: AtomicU64,
    /// Of bodies.
    pub bytes: AtomicU64,
    pub retries: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

pub(crate) fn set(counter: &AtomicU64, value: u64) {
    counter.store(value, Ordering::Relaxed);
}
