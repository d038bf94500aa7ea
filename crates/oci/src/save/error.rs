//! Why an image could not be saved.

use std::io;
use std::path::PathBuf;

use trust::digest::Digest;

use crate::error::FetchError;
use crate::reference::ImageError;

#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("blob {digest} is {size} bytes long; up to {limit} are fetched")]
    BlobSize { digest: Digest, size: u64, limit: u64 },
    #[error("the image is {size} bytes long; up to {limit} are fetched")]
    ImageSize { size: u64, limit: u64 },
    #[error("{} is not what its digest {digest} says, or is not there", path.display())]
    Wrong { path: PathBuf, digest: Digest },
    #[error("the image needs {needed} bytes in {}, beside {reserve} that stay free, and {free} are free", directory.display())]
    NoRoom { directory: PathBuf, needed: u64, reserve: u64, free: u64 },
    #[error("cannot write {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot write the layout {}", path.display())]
    Disk { path: PathBuf, source: disk::Error },
    #[error("interrupted")]
    Interrupted,
}

impl From<FetchError> for SaveError {
    fn from(error: FetchError) -> Self {
        Self::Image(error.into())
    }
}

impl SaveError {
    /// The disk, or the quota, is full.
    pub fn is_out_of_space(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match self {
            Self::NoRoom { .. } => true,
            Self::File { source, .. } => full(source.kind()),
            Self::Disk { source, .. } => source.is_out_of_space(),
            Self::Image(error) => error.is_out_of_space(),
            _ => false,
        }
    }

    /// Whether it may go better later, without anybody doing anything about the image. Other bytes than those of the digest
    /// were asked for again already: somebody serves another image.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Image(ImageError::Fetch(FetchError::Mismatch { .. })) => false,
            Self::Image(ImageError::Fetch(error)) => error.is_passing(),
            Self::Interrupted | Self::File { .. } | Self::Disk { .. } => true,
            error => error.is_out_of_space(),
        }
    }
}
