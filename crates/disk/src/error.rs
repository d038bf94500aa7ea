//! The one error type of this crate: which operation failed, on which path, and why.
//!
//! It must not decide what to do about a failure; it only lets the caller tell the classes apart that
//! need different advice (disk full, read-only, not permitted, cancelled).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was being done when the operating system said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Open,
    Create,
    Read,
    Write,
    Truncate,
    Sync,
    SyncFileSystem,
    Rename,
    Exchange,
    Link,
    Remove,
    List,
    Inspect,
    SetOwner,
    SetMode,
    SetTimes,
    ReadAttribute,
    SetAttribute,
    Clone,
    Snapshot,
    Lock,
    FreeSpace,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Truncate => "set the length of",
            Operation::Sync => "sync",
            Operation::SyncFileSystem => "sync the file system of",
            Operation::Rename => "rename",
            Operation::Exchange => "exchange",
            Operation::Link => "link",
            Operation::Remove => "remove",
            Operation::List => "list",
            Operation::Inspect => "inspect",
            Operation::SetOwner => "set the owner of",
            Operation::SetMode => "set the mode of",
            Operation::SetTimes => "set the times of",
            Operation::ReadAttribute => "read the extended attributes of",
            Operation::SetAttribute => "set an extended attribute of",
            Operation::Clone => "clone",
            Operation::Snapshot => "take a snapshot of",
            Operation::Lock => "lock",
            Operation::FreeSpace => "ask for the free space of",
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot {operation} {}", path.display())]
    Io { operation: Operation, path: PathBuf, source: io::Error },
    #[error("{} already exists", path.display())]
    Exists { path: PathBuf },
    #[error("{} vanished while it was being copied: the data is in use", path.display())]
    Vanished { path: PathBuf },
    #[error("{} turned into something else while it was being copied: the data is in use", path.display())]
    Turned { path: PathBuf },
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{} is damaged at line {line}: {why}", path.display())]
    Damaged { path: PathBuf, line: u64, why: String },
    /// `before` holds the JSON of the records before the damage, which are whole.
    #[error("journal {} is damaged at line {line}: {why}", path.display())]
    JournalDamaged { path: PathBuf, line: u64, why: String, before: Vec<String> },
    #[error("a record for {} cannot be written as JSON", path.display())]
    Encode { path: PathBuf, source: serde_json::Error },
    #[error("journal {} cannot be used any more after a failed write", path.display())]
    JournalUnusable { path: PathBuf },
    #[error("{} is a mount point", path.display())]
    MountPoint { path: PathBuf },
    #[error("{} lies inside the tree that is being copied", path.display())]
    InsideItself { path: PathBuf },
    #[error("{}: the extended attribute {name} cannot be kept on the target file system", path.display())]
    AttributeUnsupported { path: PathBuf, name: String, source: io::Error },
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    pub fn io(operation: Operation, path: &Path, source: impl Into<io::Error>) -> Self {
        Error::Io { operation, path: path.to_owned(), source: source.into() }
    }

    fn errno(&self) -> Option<i32> {
        match self {
            Error::Io { source, .. } | Error::AttributeUnsupported { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    fn is_one_of(&self, list: &[rustix::io::Errno]) -> bool {
        self.errno().is_some_and(|n| list.iter().any(|e| e.raw_os_error() == n))
    }

    /// The disk, or the quota, is full.
    pub fn is_out_of_space(&self) -> bool {
        self.is_one_of(&[rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT])
    }

    /// The file system is mounted read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_one_of(&[rustix::io::Errno::ROFS])
    }

    /// Not permitted: missing rights, or an immutable file or directory.
    pub fn is_denied(&self) -> bool {
        self.is_one_of(&[rustix::io::Errno::ACCESS, rustix::io::Errno::PERM])
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Vanished { .. }) || self.is_one_of(&[rustix::io::Errno::NOENT])
    }

    /// The two paths are on different file systems.
    pub fn is_cross_device(&self) -> bool {
        self.is_one_of(&[rustix::io::Errno::XDEV])
    }

    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled)
    }

    /// The path that the failure is about, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Io { path, .. }
            | Error::Exists { path }
            | Error::Vanished { path }
            | Error::Turned { path }
            | Error::TooLarge { path, .. }
            | Error::Damaged { path, .. }
            | Error::JournalDamaged { path, .. }
            | Error::Encode { path, .. }
            | Error::JournalUnusable { path }
            | Error::MountPoint { path }
            | Error::InsideItself { path }
            | Error::AttributeUnsupported { path, .. } => Some(path),
            Error::Cancelled => None,
        }
    }
}
