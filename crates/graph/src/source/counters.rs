//! What looking at a source cost: plain counters, for whoever shows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use oci::counters::FetchCounters;

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
    pub fetches: Arc<FetchCounters>,
}

pub(crate) fn set(counter: &AtomicU64, value: u64) {
    counter.store(value, Ordering::Relaxed);
}
