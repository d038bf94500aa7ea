//! Entries with several names: one copy, and links to it, as in the source.
//!
//! They are put off until all names of the tree are known. In an update, a group whose names are all
//! unchanged and still lead to one inode is left alone; any other is made anew as a whole, since a changed
//! group cannot be told from a moved one by its single names.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, linkat, statat};
use rustix::io::Errno;

use super::attributes::At;
use super::dir::{c_name, split};
use super::engine::Engine;
use super::manifest::Entry;
use super::meta::Meta;
use super::worker::Worker;
use crate::error::{Error, Operation, Result};

impl Engine<'_> {
    /// The paths of each inode with several names, in reverse order: the queue takes the last first.
    pub fn link_groups(&self, worker: &mut Worker) -> Vec<Vec<Vec<u8>>> {
        let mut linked = std::mem::take(&mut worker.linked);
        linked.sort_unstable();
        let mut groups: Vec<Vec<Vec<u8>>> = Vec::new();
        let mut last = None;
        for (dev, ino, rel) in linked {
            match groups.last_mut() {
                Some(group) if last == Some((dev, ino)) => group.push(rel),
                _ => groups.push(vec![rel]),
            }
            last = Some((dev, ino));
        }
        groups.sort_unstable_by(|a, b| b.cmp(a));
        groups
    }

    pub fn link(&self, worker: &mut Worker, group: &[Vec<u8>]) -> Result<()> {
        if self.progress.cancelled() {
            return Err(Error::Cancelled);
        }
        if self.known.is_some() {
            if self.leave_group_alone(worker, group)? {
                return Ok(());
            }
            for rel in group {
                let (above, name) = split(rel);
                self.discard(&self.pair(above)?, &c_name(name))?;
            }
        }
        let Some((first, others)) = group.split_first() else { return Ok(()) };
        let (above, first_name) = split(first);
        let (pair, first_name) = (self.pair(above)?, c_name(first_name));
        let from = At::Name(pair.src.as_fd(), &first_name);
        let source = from.meta().map_err(|e| Error::io(Operation::Inspect, &self.src.full(first), e))?;
        let made = self.make(worker, &pair, &first_name, source.kind, first.clone(), false)?;
        let Some(made) = made else { return Ok(()) };
        for rel in others {
            let (above, name) = split(rel);
            let other = self.pair(above)?;
            linkat(&pair.dst, &first_name, &other.dst, c_name(name), AtFlags::empty())
                .map_err(|e| Error::io(Operation::Link, &self.dst.full(rel), e))?;
        }
        // Each link has changed the inode's change time; what counts is how it ends up.
        let copy = At::Name(pair.dst.as_fd(), &first_name).meta();
        let copy = copy.map_err(|e| Error::io(Operation::Inspect, &self.dst.full(first), e))?.seen();
        worker.tally.files += others.len() as u64;
        for rel in group {
            worker.entries.push(Entry { path: rel.as_slice().into(), copy, ..made.clone() });
        }
        self.progress.advance(group.len() as u64, 0);
        Ok(())
    }

    fn leave_group_alone(&self, worker: &mut Worker, group: &[Vec<u8>]) -> Result<bool> {
        let mut inode = None;
        let mut kept = Vec::with_capacity(group.len());
        for rel in group {
            let (above, name) = split(rel);
            let (pair, name) = (self.pair(above)?, c_name(name));
            let source = statat(&pair.src, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| Error::io(Operation::Inspect, &self.src.full(rel), e))?;
            let copy = match statat(&pair.dst, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(copy) => Meta::from(&copy),
                Err(Errno::NOENT) => return Ok(false),
                Err(e) => return Err(Error::io(Operation::Inspect, &self.dst.full(rel), e)),
            };
            let source = Meta::from(&source);
            if *inode.get_or_insert(copy.ino) != copy.ino || copy.nlink != group.len() as u64 {
                return Ok(false);
            }
            match self.unchanged(rel, &source, &copy) {
                Some(record) => kept.push((pair, name, record, source, copy)),
                None => return Ok(false),
            }
        }
        let mut entries = Vec::with_capacity(kept.len());
        let mut latest = None;
        for (pair, name, record, source, copy) in kept {
            // The first may set the access time, and with it the change time of all.
            let copy = match latest {
                None => copy,
                Some(seen) => Meta { atime: source.atime, ..with_seen(copy, seen) },
            };
            let entry = self.leave_alone(worker, &pair, &name, record, &source, copy)?;
            latest = Some(entry.copy);
            entries.push(entry);
        }
        worker.entries.append(&mut entries);
        Ok(true)
    }
}

fn with_seen(meta: Meta, seen: super::manifest::Seen) -> Meta {
    Meta { ino: seen.ino, ctime: seen.ctime, ..meta }
}
