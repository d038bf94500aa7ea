//! Why something could not be fetched. Nothing here is a verdict on what was asked for: that needs its bytes.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use trust::digest::Digest;

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("cannot fetch {what}")]
    Request { what: String, source: reqwest::Error },
    #[error("{what}: the registry answered {status}{detail}")]
    Status { what: String, status: u16, detail: String, retry_after: Option<Duration> },
    #[error("{host} does not let us in: {why}")]
    Denied { host: String, why: String },
    #[error("{what} broke off after {received} bytes")]
    Body { what: String, received: u64, source: io::Error },
    #[error("{what} is not what its digest says: {received} bytes of {got}")]
    Mismatch { what: String, received: u64, got: Digest },
    #[error("{what} is longer than {limit} bytes")]
    TooLong { what: String, limit: u64 },
    #[error("{what} took longer than {} s", limit.as_secs())]
    TimedOut { what: String, limit: Duration },
    #[error("{what} makes no sense: {why}")]
    Nonsense { what: String, why: String },
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} holds no image {tag:?}", path.display())]
    NoSuchTag { path: PathBuf, tag: String },
    #[error("{} holds {count} images: write which one is meant, as oci:DIR:TAG", path.display())]
    NotTheOnly { path: PathBuf, count: usize },
    #[error("cannot set up access to {host}: {why}")]
    Access { host: String, why: String },
    #[error("not asked: the {failures} questions before it failed")]
    GaveUp { failures: usize, source: Arc<FetchError> },
    #[error("interrupted")]
    Interrupted,
}

impl FetchError {
    /// Whether the same question may have another answer in a moment.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Request { .. } | Self::Body { .. } | Self::Mismatch { .. } | Self::TimedOut { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            _ => false,
        }
    }

    /// Whether there is somebody to ask, who knows nothing of what was asked for.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status == 404,
            Self::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::NoSuchTag { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// An error and all of its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Some libraries repeat their causes in their own text.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
