//! Who has an image, and how to get a link to it.

use std::pin::Pin;

use logic::images::{DiskId, ImageId, ImageName};
use tokio::io::{AsyncRead, AsyncWrite};

/// A manager that has an image, or part of it, or will.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Peer {
    pub disk: DiskId,
    pub address: String,
}

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A peer has taken us on: what to show at the beginning, and where.
pub struct Dialled {
    pub ticket: [u8; 32],
    pub stream: Box<dyn Stream>,
}

#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct DialError {
    /// It answered, and does not want to: it is busy, or does not have the image yet.
    pub refused: bool,
    pub why: String,
}

pub type Dialling<'a> = Pin<Box<dyn Future<Output = Result<Dialled, DialError>> + Send + 'a>>;

/// Asks a peer to send an image, and connects to it.
pub trait Dial: Send + Sync {
    fn dial<'a>(&'a self, peer: &'a Peer, name: &'a ImageName, id: &'a ImageId) -> Dialling<'a>;
}
