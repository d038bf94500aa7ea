//! What fetching cost: plain counters, for whoever shows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Since the start.
#[derive(Debug, Default)]
pub struct FetchCounters {
    pub heads: AtomicU64,
    pub gets: AtomicU64,
    /// Of bodies.
    pub bytes: AtomicU64,
    pub retries: AtomicU64,
}

pub fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}
