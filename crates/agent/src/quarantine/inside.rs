//! Plain files out of a tree that came from elsewhere: nothing is followed out of it, and nothing is waited for.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Why something inside of a tree can't be read.
#[derive(Debug)]
pub(super) enum Inside {
    Missing,
    /// Reached through a link, or not of the kind that it should be.
    Other,
    TooLong,
    Read(io::Error),
}

impl From<Errno> for Inside {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Missing,
            Errno::LOOP | Errno::NOTDIR => Self::Other,
            error => Self::Read(error.into()),
        }
    }
}

fn open(tree: &Path, path: &Path, flags: OFlags) -> Result<OwnedFd, Inside> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, tree, directory, Mode::empty())?;
    // Nothing that would be waited for, either.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | flags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    Ok(openat2(&root, path, flags, Mode::empty(), resolve)?)
}

/// A plain file of at most `limit` bytes.
pub(super) fn file(tree: &Path, path: &Path, limit: u64) -> Result<Vec<u8>, Inside> {
    let file = File::from(open(tree, path, OFlags::empty())?);
    if !file.metadata().map_err(Inside::Read)?.is_file() {
        return Err(Inside::Other);
    }
    let mut bytes = vec![];
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Inside::Read)?;
    if bytes.len() as u64 > limit { Err(Inside::TooLong) } else { Ok(bytes) }
}

/// Whether there is a directory; anything else in its place is an error.
pub(super) fn is_directory(tree: &Path, path: &Path) -> Result<bool, Inside> {
    match open(tree, path, OFlags::DIRECTORY) {
        Ok(_) => Ok(true),
        Err(Inside::Missing) => Ok(false),
        Err(error) => Err(error),
    }
}
