//! One object on its way through a pass.

use bytes::Bytes;
use tokio::time::Instant;

use crate::migrator::objects::Object;

pub(super) struct Task {
    pub page: u64,
    pub object: Object,
    /// When it was first tried and failed.
    pub failing: Option<Instant>,
    pub failures: u32,
    /// Failures that are held against it.
    pub tries: u32,
    /// How often there was no answer, and since when.
    pub silences: Option<(Instant, u32)>,
}

/// A task that waits for its next try.
pub(super) struct Later {
    pub due: Instant,
    pub task: Task,
}

impl Task {
    pub fn new(page: u64, bytes: Bytes) -> Self {
        Self { page, object: Object::Listed(bytes), failing: None, failures: 0, tries: 0, silences: None }
    }
}

/// Of the earliest due first.
impl Ord for Later {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

impl PartialOrd for Later {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Later {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Later {}
