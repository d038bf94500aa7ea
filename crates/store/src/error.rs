//! What can be wrong with a call, and with the file.

use std::path::PathBuf;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error("there is no {kind} {name:?}")]
    NotFound { kind: &'static str, name: String },
    #[error("there is a {kind} {name:?} already")]
    Exists { kind: &'static str, name: String },
    /// Read it again, and decide again.
    #[error("{kind} {name:?} has changed since it was read")]
    Conflict { kind: &'static str, name: String },
    /// List again, and watch from there.
    #[error("what happened since version {0} is not known any more")]
    TooOld(String),
    #[error("{kind} {name:?} would take {bytes} bytes; at most {most} are kept")]
    TooLarge { kind: &'static str, name: String, bytes: usize, most: usize },
    #[error("there are {most} objects of kind {kind} already, and no more are kept")]
    TooMany { kind: &'static str, most: usize },
    #[error("{kind} {name:?} is not an object with metadata and a spec")]
    Shape { kind: &'static str, name: String },
    #[error("{kind} {name:?} can't be written or read as its type")]
    Type { kind: &'static str, name: String, source: Arc<serde_json::Error> },
    #[error("the store can't be written; nothing was changed")]
    Write(#[source] Arc<redb::Error>),
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// What to do about it, where something can be done.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Conflict { .. } => Some("read it again and repeat the change"),
            Self::TooOld(_) => Some("list again, and watch from the version of the list"),
            Self::Write(_) => {
                Some("see that the file system of the state file has space, then restart the service")
            }
            Self::Exists { .. } => Some("choose another name, or delete the other one first"),
            _ => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} is in use by another process")]
    InUse { path: PathBuf },
    #[error("{path} is not a store of Holdfast")]
    Foreign { path: PathBuf },
    #[error("{path} was written by a newer Holdfast (format {found}, this one knows {known})")]
    Newer { path: PathBuf, found: u64, known: u64 },
    #[error("{path} is damaged: {what}")]
    Damaged { path: PathBuf, what: String },
    #[error("{path} can't be opened")]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{path} can't be read")]
    Read { path: PathBuf, source: Box<redb::Error> },
}

impl OpenError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InUse { .. } => {
                "one service at a time works on a state file; stop the other one, or choose another file"
            }
            Self::Foreign { .. } => "choose another path for the state file",
            Self::Newer { .. } => "run the newer Holdfast",
            Self::Damaged { .. } => {
                "put a copy of the file back, or move it away to begin with an empty one; images stay on their disks"
            }
            Self::Io { .. } | Self::Read { .. } => {
                "see that the path is right and that this user may write there"
            }
        }
    }
}
