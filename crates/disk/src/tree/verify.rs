//! Whether a tree is still what its manifest says. Only looks; what a difference means is the caller's.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::io::Errno;

use super::dir::Root;
use super::manifest::{Entry, Manifest};
use super::meta::{Kind, Meta};
use super::progress::Progress;
use super::seal::{Hasher, Unhashed};
use super::survey::{Visit, Walk};
use crate::error::{Error, Operation, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Names, kinds, sizes, modes, owners, times, and that no inode was touched since.
    Structure,
    /// All that, and the content of whatever the manifest has a hash of. Where the content is proven, being
    /// another inode with another change time is not a difference: someone may have copied the tree.
    Content,
}

#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// 0: as many as suit the machine.
    pub threads: usize,
    /// Not more mismatches than this are reported.
    pub limit: usize,
}

impl Default for VerifyOptions {
    fn default() -> VerifyOptions {
        VerifyOptions { threads: 0, limit: 100 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Difference {
    Missing,
    Extra,
    Kind,
    Size,
    Mode,
    Owner,
    Mtime,
    /// The inode is another, or something about it changed after the copy was made.
    Touched,
    Content,
    /// The disk does not give the content back.
    Unreadable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// From the root of the tree; bytes.
    pub path: Vec<u8>,
    pub difference: Difference,
}

/// Compares `tree` with its manifest: the first difference of each entry, sorted by path.
pub fn verify(
    tree: &Path,
    manifest: &Manifest,
    depth: Depth,
    options: &VerifyOptions,
    progress: &dyn Progress,
) -> Result<Vec<Mismatch>> {
    let root = Root::open(tree)?;
    let present: Vec<AtomicBool> = manifest.entries().iter().map(|_| AtomicBool::new(false)).collect();
    let reported = AtomicUsize::new(0);
    let report = |list: &mut Vec<Mismatch>, path: Vec<u8>, difference| {
        if reported.fetch_add(1, Ordering::Relaxed) < options.limit {
            list.push(Mismatch { path, difference });
        }
    };
    let walk = Walk { root: &root, threads: options.threads, progress };
    let new_state = || (Vec::new(), Hasher::new(progress));
    let found = walk.run(new_state, |(list, hasher), visit| {
        let Some(index) = manifest.position(&visit.rel) else {
            report(list, visit.rel, Difference::Extra);
            return Ok(false);
        };
        present[index].store(true, Ordering::Relaxed);
        let entry = &manifest.entries()[index];
        match difference(&root, entry, &visit, depth, hasher)? {
            None => Ok(true),
            Some(difference) => {
                report(list, visit.rel, difference);
                Ok(difference != Difference::Kind)
            }
        }
    })?;
    let mut all: Vec<Mismatch> = found.into_iter().flat_map(|(list, _)| list).collect();
    for (entry, present) in manifest.entries().iter().zip(&present) {
        if !present.load(Ordering::Relaxed) {
            report(&mut all, entry.path.to_vec(), Difference::Missing);
        }
    }
    all.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

fn described(entry: &Entry, meta: &Meta) -> Option<Difference> {
    if entry.kind != meta.kind {
        Some(Difference::Kind)
    } else if entry.size != meta.recorded_size() {
        Some(Difference::Size)
    } else if entry.mode != meta.mode {
        Some(Difference::Mode)
    } else if (entry.uid, entry.gid) != (meta.uid, meta.gid) {
        Some(Difference::Owner)
    } else if entry.mtime != meta.mtime {
        Some(Difference::Mtime)
    } else {
        None
    }
}

fn difference(
    root: &Root,
    entry: &Entry,
    visit: &Visit<'_>,
    depth: Depth,
    hasher: &mut Hasher<'_>,
) -> Result<Option<Difference>> {
    if let Some(difference) = described(entry, &visit.meta) {
        return Ok(Some(difference));
    }
    if let (Depth::Content, Some(expected), Some(listed)) = (depth, entry.hash, visit.name) {
        return match hasher.hash(visit.at.as_fd(), &listed.name, entry.kind) {
            Ok((hash, _)) => Ok((hash != expected).then_some(Difference::Content)),
            Err(Unhashed::Cancelled) => Err(Error::Cancelled),
            Err(Unhashed::Failed(Errno::IO)) => Ok(Some(Difference::Unreadable)),
            Err(Unhashed::Failed(e)) => Err(Error::io(Operation::Read, &root.full(&visit.rel), e)),
        };
    }
    // Renaming the whole tree touches its root; publishing and moving aside do that. And where content is
    // compared, a directory has nothing of its own to compare but what was above.
    let exempt = entry.kind == Kind::Directory && (entry.path.is_empty() || depth == Depth::Content);
    Ok((!exempt && entry.copy != visit.meta.seen()).then_some(Difference::Touched))
}
