//! Hashing the content of a copy, once, after it was made. Never hashes what is no longer what was copied.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::{Errno, pread};

use super::attributes::At;
use super::dir::{Root, c_name, split};
use super::manifest::{Entry, Hash, Manifest};
use super::meta::{Kind, Meta};
use super::pool::{self, backwards};
use super::progress::Progress;
use super::verify::{Difference, Mismatch};
use crate::error::{Error, Operation, Result};

const BUFFER: usize = 256 * 1024;
const BATCH: usize = 64;
const STRIDE: u64 = 8 * 1024 * 1024;

/// Why a hash could not be had.
pub(crate) enum Unhashed {
    Cancelled,
    Failed(Errno),
}

pub(crate) struct Hasher<'a> {
    pub progress: &'a dyn Progress,
    buffer: Vec<u8>,
    pending: u64,
}

impl<'a> Hasher<'a> {
    pub fn new(progress: &'a dyn Progress) -> Hasher<'a> {
        Hasher { progress, buffer: Vec::new(), pending: 0 }
    }

    pub fn tell(&mut self, files: u64) {
        self.progress.advance(files, std::mem::take(&mut self.pending));
    }

    /// The hash of the file or link `name`, and what was opened.
    pub fn hash(&mut self, dir: impl AsFd, name: &CStr, kind: Kind) -> Result<(Hash, Meta), Unhashed> {
        if kind == Kind::Symlink {
            let meta = At::Name(dir.as_fd(), name).meta().map_err(Unhashed::Failed)?;
            let target = readlinkat(&dir, name, Vec::new()).map_err(Unhashed::Failed)?;
            return Ok((*blake3::hash(target.as_bytes()).as_bytes(), meta));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&dir, name, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => openat(&dir, name, flags, Mode::empty()),
            other => other,
        }
        .map_err(Unhashed::Failed)?;
        let meta = Meta::from(&fstat(&file).map_err(Unhashed::Failed)?);
        if meta.kind != Kind::File {
            return Err(Unhashed::Failed(Errno::LOOP));
        }
        Ok((self.content(&file, meta.size)?, meta))
    }

    fn content(&mut self, file: &OwnedFd, size: u64) -> Result<Hash, Unhashed> {
        self.buffer.resize(BUFFER, 0);
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < size {
            let want = usize::try_from(size - at).unwrap_or(usize::MAX).min(BUFFER);
            match pread(file, &mut self.buffer[..want], at) {
                Ok(0) => break,
                Ok(got) => {
                    hasher.update(&self.buffer[..got]);
                    at += got as u64;
                    self.pending += got as u64;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(Unhashed::Failed(e)),
            }
            if self.pending >= STRIDE {
                self.tell(0);
                if self.progress.cancelled() {
                    return Err(Unhashed::Cancelled);
                }
            }
        }
        Ok(*hasher.finalize().as_bytes())
    }
}

/// Adds the hashes that the manifest of `tree` does not have yet. 0 threads: as many as suit.
///
/// An entry that is not what was copied any more (another inode or change time) gets no hash and is
/// named in the answer; the tree is sealed when the answer is empty.
pub fn seal(
    tree: &Path,
    manifest: &mut Manifest,
    threads: usize,
    progress: &dyn Progress,
) -> Result<Vec<Mismatch>> {
    let root = Root::open(tree)?;
    let entries = manifest.entries();
    let mut wanted: Vec<usize> = (0..entries.len())
        .filter(|&i| entries[i].hash.is_none() && matches!(entries[i].kind, Kind::File | Kind::Symlink))
        .collect();
    // As they lie on disk.
    wanted.sort_unstable_by_key(|&i| entries[i].copy.ino);
    let new_state = || (Hasher::new(progress), Vec::new(), Vec::new());
    let batches = backwards(wanted, BATCH);
    let states = pool::run(threads, batches, new_state, |_, (hasher, hashes, mismatches), batch| {
        let count = batch.len() as u64;
        let mut last: Option<(&[u8], OwnedFd)> = None;
        for index in batch {
            let entry = &entries[index];
            let (above, name) = split(&entry.path);
            let dir = match last.take() {
                Some((path, fd)) if path == above => fd,
                _ => root.dir(above)?,
            };
            match hasher.hash(&dir, &c_name(name), entry.kind) {
                Ok((hash, meta)) if unchanged(entry, &meta) => hashes.push((index, hash)),
                Ok(_) => mismatches.push(mismatch(entry, Difference::Touched)),
                Err(Unhashed::Cancelled) => return Err(Error::Cancelled),
                Err(Unhashed::Failed(Errno::NOENT)) => mismatches.push(mismatch(entry, Difference::Missing)),
                Err(Unhashed::Failed(Errno::LOOP)) => mismatches.push(mismatch(entry, Difference::Kind)),
                Err(Unhashed::Failed(Errno::IO)) => mismatches.push(mismatch(entry, Difference::Unreadable)),
                Err(Unhashed::Failed(e)) => {
                    return Err(Error::io(Operation::Read, &root.full(&entry.path), e));
                }
            }
            if hasher.progress.cancelled() {
                return Err(Error::Cancelled);
            }
            last = Some((above, dir));
        }
        hasher.tell(count);
        Ok(())
    })?;
    let mut all = Vec::new();
    let mut found = Vec::new();
    for (_, hashes, mismatches) in states {
        found.extend(hashes);
        all.extend(mismatches);
    }
    for (index, hash) in found {
        manifest.entries_mut()[index].hash = Some(hash);
    }
    all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn unchanged(entry: &Entry, meta: &Meta) -> bool {
    entry.copy == meta.seen() && entry.size == meta.recorded_size()
}

fn mismatch(entry: &Entry, difference: Difference) -> Mismatch {
    Mismatch { path: entry.path.to_vec(), difference }
}
