//! What can go wrong with the files of a disk, each with the way out.

use std::io;
use std::path::{Path, PathBuf};

use disk::Operation;
use logic::images::{BadName, DiskId, ListError};

use super::format::FormatError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error("{} is not a disk of a site: it holds no holdfast-disk.cfg", .path.display())]
    NotADisk { path: PathBuf },
    #[error("{} can't be understood: {why}", .path.display())]
    DiskConfig { path: PathBuf, why: String },
    #[error("{} says a name that can't be used", .path.display())]
    DiskName { path: PathBuf, source: BadName },
    #[error("{} is disk {found}, not {expected}: nothing on it was touched", .path.display())]
    WrongDisk { path: PathBuf, expected: DiskId, found: DiskId },
    #[error("{} is not what a manager makes: {why}", .path.display())]
    Stranger { path: PathBuf, why: &'static str },
    #[error(
        "not enough room on {}: {need} bytes more are needed, {free} are free, and {reserve} of them must stay free",
        .path.display()
    )]
    NoRoom { path: PathBuf, need: u64, free: u64, reserve: u64 },
    #[error("another manager writes to {}", .path.display())]
    Busy { path: PathBuf },
    #[error("another manager changed {} since it was opened", .path.display())]
    ChangedByOther { path: PathBuf },
    #[error("the image is at generation {ours}, this belongs to {theirs}")]
    Generation { ours: u64, theirs: u64 },
    #[error("chunk {at} was listed as another one before")]
    Contradiction { at: usize },
    #[error("chunks up to {known} are known, these begin at {at}")]
    Gap { at: usize, known: usize },
    #[error("the list of chunks is refused")]
    List(#[from] ListError),
    #[error("the image is {is} bytes long, not {said}")]
    Size { said: u64, is: u64 },
    #[error("{bytes} bytes from chunk {first} on are not whole chunks")]
    NotWhole { first: usize, bytes: usize },
    #[error("chunk {chunk} is not here")]
    NotHeld { chunk: usize },
    #[error("{held} of {listed} chunks are here")]
    Incomplete { held: usize, listed: usize },
    #[error("its end is not known yet: it is not sealed")]
    NotSealed,
    #[error("its chunks do not add up to its seal")]
    SealMismatch,
    #[error("it is sealed as another image already")]
    OtherSeal,
    #[error("it is whole already")]
    Whole,
    #[error("the image is refused")]
    Format(#[from] FormatError),
    #[error("cancelled")]
    Cancelled,
}

impl FileError {
    pub(crate) fn io(operation: Operation, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Disk(disk::Error::io(operation, path, source))
    }

    /// There is no room on the disk, or would not be.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::NoRoom { .. } => true,
            Self::Disk(error) => error.is_out_of_space(),
            _ => false,
        }
    }

    /// The disk is not the one that it should be.
    pub fn is_wrong_disk(&self) -> bool {
        matches!(
            self,
            Self::NotADisk { .. } | Self::DiskConfig { .. } | Self::DiskName { .. } | Self::WrongDisk { .. }
        )
    }

    /// What a list or seal from elsewhere says can't be true together with what is known here.
    pub fn is_contradiction(&self) -> bool {
        matches!(
            self,
            Self::Contradiction { .. }
                | Self::Gap { .. }
                | Self::List(_)
                | Self::Size { .. }
                | Self::SealMismatch
                | Self::OtherSeal
        )
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotADisk { path } => {
                format!("is the disk mounted at {}? A new one is set up with `holdfast image-manager --disk DIR --init`", path.display())
            }
            Self::DiskConfig { .. } | Self::DiskName { .. } => {
                "restore the file from another copy: {\"diskUUID\": \"…\"}; the site knows the uuid (`holdfast image ls -o wide`)".into()
            }
            Self::WrongDisk { .. } => "mount the right disk there, or start the manager for this one".into(),
            Self::Stranger { path, .. } => format!("move {} away, and try again", path.display()),
            Self::NoRoom { .. } => {
                "remove images that are not used (`holdfast image cleanup`), or lower `disk-reserve`".into()
            }
            Self::Disk(error) if error.is_out_of_space() => {
                "make room on the disk (`holdfast image cleanup`); what was fetched is kept".into()
            }
            Self::Busy { .. } => "wait until the other manager has let go of it, or stop that one".into(),
            Self::Format(error) => return error.hint(),
            _ => return None,
        })
    }
}
