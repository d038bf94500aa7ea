//! When to stop asking a registry that has stopped answering: each question alone would wait its full time, and there
//! may be thousands.

use std::sync::atomic::{AtomicUsize, Ordering};

use oci::FetchError;

/// Of one look at one source.
pub(super) struct Patience {
    /// Failures since something went well.
    in_a_row: AtomicUsize,
    limit: usize,
}

impl Patience {
    /// Enough for a few bad ones among what is asked at the same time.
    pub(super) fn new(at_once: usize) -> Self {
        Self { in_a_row: AtomicUsize::new(0), limit: at_once.max(1).saturating_mul(2) }
    }

    /// Before a question.
    pub(super) fn check(&self) -> Result<(), FetchError> {
        match self.in_a_row.load(Ordering::Relaxed) {
            failures if failures >= self.limit => Err(FetchError::GaveUp { failures }),
            _ => Ok(()),
        }
    }

    /// After it. What one image alone is to blame for does not count.
    pub(super) fn learn<T>(&self, answer: Result<T, FetchError>) -> Result<T, FetchError> {
        match &answer {
            Ok(_) => self.in_a_row.store(0, Ordering::Relaxed),
            Err(error) if error.is_passing() || matches!(error, FetchError::Denied { .. }) => {
                self.in_a_row.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {}
        }
        answer
    }
}
