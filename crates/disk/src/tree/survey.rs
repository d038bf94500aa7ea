//! A manifest of a tree as it stands, for copies that come without one: snapshots. Looks, reads nothing.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, fstat, statat};

use super::dir::{Listed, Order, Root, join, list};
use super::manifest::{Entry, Manifest};
use super::meta::{Kind, Meta, Time};
use super::pool::{self, Queue, backwards};
use super::progress::Progress;
use crate::error::{Error, Operation, Result};

const BATCH: usize = 256;

pub(crate) enum Task {
    Directory(Vec<u8>),
    Entries(Arc<(Vec<u8>, OwnedFd)>, Vec<Listed>),
}

/// Visits every entry of a tree, on several threads: `visit(state, rel, directory it is in, name, meta)`;
/// the root has no directory. `enter` says whether to go into a directory.
pub(crate) struct Walk<'a> {
    pub root: &'a Root,
    pub threads: usize,
    pub progress: &'a dyn Progress,
}

/// One entry on a walk.
pub(crate) struct Visit<'a> {
    pub rel: Vec<u8>,
    /// The open directory that it is in, and its name there; for a directory itself, open.
    pub at: &'a OwnedFd,
    pub name: Option<&'a Listed>,
    pub meta: Meta,
}

impl Walk<'_> {
    /// `visit` answers, for a directory, whether to look into it.
    pub fn run<S: Send>(
        &self,
        new_state: impl Fn() -> S + Sync,
        visit: impl Fn(&mut S, Visit<'_>) -> Result<bool> + Sync,
    ) -> Result<Vec<S>> {
        let first = [Task::Directory(Vec::new())];
        pool::run(self.threads, first, new_state, |queue, state, task| {
            if self.progress.cancelled() {
                return Err(Error::Cancelled);
            }
            match task {
                Task::Directory(rel) => self.directory(queue, state, rel, &visit),
                Task::Entries(dir, entries) => {
                    for entry in &entries {
                        let rel = join(&dir.0, entry.name.to_bytes());
                        let meta = statat(&dir.1, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
                        let meta =
                            meta.map_err(|e| Error::io(Operation::Inspect, &self.root.full(&rel), e))?;
                        let meta = Meta::from(&meta);
                        visit(state, Visit { rel, at: &dir.1, name: Some(entry), meta })?;
                        if self.progress.cancelled() {
                            return Err(Error::Cancelled);
                        }
                    }
                    self.progress.advance(entries.len() as u64, 0);
                    Ok(())
                }
            }
        })
    }

    fn directory<S>(
        &self,
        queue: &Queue<'_, Task>,
        state: &mut S,
        rel: Vec<u8>,
        visit: &impl Fn(&mut S, Visit<'_>) -> Result<bool>,
    ) -> Result<()> {
        let fd = self.root.dir(&rel)?;
        let meta = fstat(&fd).map_err(|e| Error::io(Operation::Inspect, &self.root.full(&rel), e))?;
        let meta = Meta::from(&meta);
        if !visit(state, Visit { rel: rel.clone(), at: &fd, name: None, meta })? {
            return Ok(());
        }
        let entries = list(self.root, &rel, &fd, Order::Inode)?;
        let (below, names): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.kind == Kind::Directory);
        queue.push(below.iter().rev().map(|e| Task::Directory(join(&rel, e.name.to_bytes()))));
        let dir = Arc::new((rel, fd));
        queue.push(backwards(names, BATCH).into_iter().map(|batch| Task::Entries(Arc::clone(&dir), batch)));
        Ok(())
    }
}

/// The manifest of `tree` as if it were a copy of itself. 0 threads: as many as suit.
///
/// Since in a snapshot inodes and change times are those of the source, it also says what the source was.
/// `started` is set so that nothing counts as unchanged in an [`super::update`]; whoever knows when the
/// snapshot was taken may set it to that.
pub fn survey(tree: &Path, threads: usize, progress: &dyn Progress) -> Result<Manifest> {
    let root = Root::open(tree)?;
    let walk = Walk { root: &root, threads, progress };
    let found = walk.run(Vec::new, |entries, visit| {
        entries.push(Entry::new(visit.rel, &visit.meta, &visit.meta));
        Ok(true)
    })?;
    Ok(Manifest::new(Time::default(), found.into_iter().flatten().collect()))
}
