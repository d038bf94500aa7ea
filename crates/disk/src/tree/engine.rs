//! What happens to each entry of a tree that is copied or brought up to date.
//!
//! Tasks are directories and batches of the names in one. A directory's own metadata waits until all its
//! names are there (`finish_directories`); until then it is open to us only, and hands nothing down. It must
//! not remove anything from a target that `copy` made, and never writes to the source.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Advice, AtFlags, Mode, fadvise, fstat, mkdirat, statat};
use rustix::io::Errno;

use super::ahead::Reached;
use super::attributes::{At, drop_attributes_not_in, set_times, stop_inheritance};
use super::content::{BUFFER, Sharing};
use super::copy::Warning;
use super::dir::{Listed, Order, Root, join, list};
use super::manifest::{Entry, Manifest};
use super::meta::{Kind, Meta, Time};
use super::pool::{Queue, backwards};
use super::progress::Progress;
use super::remove::remove_entry;
use super::worker::Worker;
use crate::error::{Error, Operation, Result};

/// Names per task: enough to make up for handing it over, few enough to share a directory between threads.
const BATCH: usize = 64;
/// Files that are opened ahead of being copied.
const AHEAD: usize = 32;

/// The older copy that an update starts from.
pub(crate) struct Known<'a> {
    pub manifest: &'a Manifest,
    /// Sources that changed later than this are not trusted to be unchanged.
    pub quiet_before: Time,
}

pub(crate) struct Engine<'a> {
    pub src: Root,
    pub dst: Root,
    /// Entries in the order of their names, for calls that can be foretold.
    pub by_name: bool,
    pub progress: &'a dyn Progress,
    pub known: Option<Known<'a>>,
    pub sharing: Sharing,
    pub reached: Reached,
    /// Who owns what we create, mostly.
    pub creator: (u32, u32),
}

pub(crate) enum Task {
    Directory { rel: Vec<u8>, parent_dev: u64 },
    Entries(Arc<Pair>, Vec<Listed>),
}

/// A directory of the source and its counterpart, open.
pub(crate) struct Pair {
    pub rel: Vec<u8>,
    pub src: OwnedFd,
    pub dst: OwnedFd,
    opened_up: Mutex<bool>,
}

impl Engine<'_> {
    pub fn work(&self, queue: &Queue<'_, Task>, worker: &mut Worker, task: Task) -> Result<()> {
        if self.progress.cancelled() {
            return Err(Error::Cancelled);
        }
        match task {
            Task::Directory { rel, parent_dev } => self.directory(queue, worker, rel, parent_dev),
            Task::Entries(pair, entries) => {
                let before = worker.tally.files;
                let ahead =
                    self.known.is_none() && self.sharing.known_impossible((self.src.dev, self.dst.dev));
                let mut opened = VecDeque::new();
                let mut upcoming = entries.iter();
                for entry in &entries {
                    if ahead {
                        self.read_ahead(&pair, &mut upcoming, &mut opened)?;
                    }
                    let made = self.entry(worker, &pair, entry, opened.pop_front().flatten())?;
                    worker.entries.extend(made);
                    if self.progress.cancelled() {
                        return Err(Error::Cancelled);
                    }
                }
                self.progress.advance(worker.tally.files - before, std::mem::take(&mut worker.pending));
                Ok(())
            }
        }
    }

    /// Where content will have to be read, opens files ahead of their turn and has the kernel fetch them
    /// while earlier ones are being copied: on a cold cache that is worth more than further threads.
    fn read_ahead(
        &self,
        pair: &Pair,
        upcoming: &mut std::slice::Iter<'_, Listed>,
        opened: &mut VecDeque<Option<OwnedFd>>,
    ) -> Result<()> {
        while opened.len() < AHEAD
            && let Some(entry) = upcoming.next()
        {
            if entry.kind != Kind::File {
                opened.push_back(None);
                continue;
            }
            let file = self.open_source(pair, &entry.name, || join(&pair.rel, entry.name.to_bytes()))?;
            // Only advice: a file system that does not take it reads when asked to.
            let _ = fadvise(&file, 0, NonZeroU64::new(BUFFER as u64), Advice::WillNeed);
            opened.push_back(Some(file));
        }
        Ok(())
    }

    pub fn pair(&self, rel: &[u8]) -> Result<Pair> {
        let src = self.src.dir(rel).map_err(|e| self.gone(rel, e))?;
        Ok(Pair { rel: rel.to_vec(), src, dst: self.dst.dir(rel)?, opened_up: Mutex::new(false) })
    }

    /// Something of the source that is not there any more has an error of its own.
    fn gone(&self, rel: &[u8], error: Error) -> Error {
        if error.is_not_found() { Error::Vanished { path: self.src.full(rel) } } else { error }
    }

    pub fn source_failed(&self, operation: Operation, rel: &[u8], e: Errno) -> Error {
        let path = self.src.full(rel);
        match e {
            Errno::NOENT => Error::Vanished { path },
            // What was a file when the directory was listed is a link or has no one behind it now.
            Errno::LOOP | Errno::NXIO | Errno::NOTDIR => Error::Turned { path },
            e => Error::io(operation, &path, e),
        }
    }

    pub fn target_failed(&self, operation: Operation, rel: &[u8], e: Errno) -> Error {
        Error::io(operation, &self.dst.full(rel), e)
    }

    /// Readies the counterpart for changes: whatever it would hand down to new names is taken off. Its real
    /// metadata comes back at the end.
    pub fn open_up(&self, pair: &Pair) -> Result<()> {
        let mut done = pair.opened_up.lock().unwrap_or_else(PoisonError::into_inner);
        if self.known.is_some() && !*done {
            stop_inheritance(&pair.dst).map_err(|e| self.target_failed(Operation::SetMode, &pair.rel, e))?;
            *done = true;
        }
        Ok(())
    }

    pub fn discard(&self, pair: &Pair, name: &CStr) -> Result<()> {
        self.open_up(pair)?;
        let path = self.dst.full(&join(&pair.rel, name.to_bytes()));
        remove_entry(pair.dst.as_fd(), name, &path, 1, &())
    }

    fn directory(
        &self,
        queue: &Queue<'_, Task>,
        worker: &mut Worker,
        rel: Vec<u8>,
        parent_dev: u64,
    ) -> Result<()> {
        let pair = self.pair(&rel)?;
        let stat = fstat(&pair.src).map_err(|e| self.source_failed(Operation::Inspect, &rel, e))?;
        let meta = Meta::from(&stat);
        if (meta.dev, meta.ino) == (self.dst.dev, self.dst.ino) {
            return Err(Error::InsideItself { path: self.dst.path.clone() });
        }
        if meta.dev != parent_dev {
            worker.warn(Warning::Crossed { path: self.src.full(&rel) });
        }
        let order = if self.by_name { Order::Name } else { Order::Inode };
        let entries = list(&self.src, &rel, &pair.src, order)?;
        self.reached.add(entries.len());
        if self.known.is_some() {
            self.discard_extras(&pair, &entries)?;
        }
        let (below, names): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.kind == Kind::Directory);
        for entry in &below {
            self.make_directory(&pair, &entry.name)?;
        }
        // The names of this directory are taken from the queue before the directories in it.
        queue.push(
            below.iter().rev().map(|entry| Task::Directory {
                rel: join(&rel, entry.name.to_bytes()),
                parent_dev: meta.dev,
            }),
        );
        worker.directories.push((rel, meta));
        let pair = Arc::new(pair);
        queue.push(backwards(names, BATCH).into_iter().map(|batch| Task::Entries(Arc::clone(&pair), batch)));
        Ok(())
    }

    /// Removes from an older copy what the source does not have.
    fn discard_extras(&self, pair: &Pair, wanted: &[Listed]) -> Result<()> {
        let mut wanted: Vec<&CStr> = wanted.iter().map(|e| e.name.as_c_str()).collect();
        wanted.sort_unstable();
        for entry in list(&self.dst, &pair.rel, &pair.dst, Order::Name)? {
            if wanted.binary_search(&entry.name.as_c_str()).is_err() {
                self.discard(pair, &entry.name)?;
            }
        }
        Ok(())
    }

    fn make_directory(&self, pair: &Pair, name: &CStr) -> Result<()> {
        if self.known.is_some() {
            match statat(&pair.dst, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Meta::from(&s).kind) {
                Ok(Kind::Directory) => return Ok(()),
                Ok(_) => self.discard(pair, name)?,
                Err(_) => self.open_up(pair)?,
            }
        }
        mkdirat(&pair.dst, name, Mode::RWXU)
            .map_err(|e| self.target_failed(Operation::Create, &join(&pair.rel, name.to_bytes()), e))
    }

    /// The record of `rel`, if source and copy are both still what it says.
    pub fn unchanged(&self, rel: &[u8], source: &Meta, copy: &Meta) -> Option<&Entry> {
        let known = self.known.as_ref()?;
        let record = known.manifest.get(rel)?;
        let same = record.describes(source)
            && record.source == source.seen()
            && record.source.ctime < known.quiet_before
            && record.copy == copy.seen()
            && record.kind == copy.kind
            && record.size == copy.recorded_size();
        same.then_some(record)
    }

    fn entry(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        entry: &Listed,
        opened: Option<OwnedFd>,
    ) -> Result<Option<Entry>> {
        let name = entry.name.as_c_str();
        let rel = join(&pair.rel, name.to_bytes());
        let mut kind = entry.kind;
        if self.known.is_some() {
            let source = statat(&pair.src, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|e| self.source_failed(Operation::Inspect, &rel, e))?;
            let source = Meta::from(&source);
            kind = source.kind;
            if source.nlink > 1 && kind != Kind::Directory {
                worker.linked.push((source.dev, source.ino, rel));
                return Ok(None);
            }
            match statat(&pair.dst, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Meta::from(&s)) {
                Ok(copy) => match self.unchanged(&rel, &source, &copy) {
                    Some(record) => {
                        return self.leave_alone(worker, pair, name, record, &source, copy).map(Some);
                    }
                    None => self.discard(pair, name)?,
                },
                Err(Errno::NOENT) => self.open_up(pair)?,
                Err(e) => return Err(self.target_failed(Operation::Inspect, &rel, e)),
            }
        }
        match opened {
            Some(file) => self.make_file(worker, pair, name, rel, true, file),
            None => self.make(worker, pair, name, kind, rel, true),
        }
    }

    /// Keeps an entry of the older copy. Reading the source may have changed its access time and nothing
    /// else; a new copy would have that, so this one gets it.
    pub fn leave_alone(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        name: &CStr,
        record: &Entry,
        source: &Meta,
        mut copy: Meta,
    ) -> Result<Entry> {
        if source.atime != copy.atime {
            copy = set_times(At::Name(pair.dst.as_fd(), name), source)
                .map_err(|e| self.target_failed(Operation::SetTimes, &record.path, e))?;
        }
        worker.tally.files += 1;
        worker.tally.left_alone += 1;
        Ok(Entry { copy: copy.seen(), ..record.clone() })
    }

    /// Gives every directory its own metadata, now that nothing is added to any of them. The deepest come
    /// first, so that a directory which is closed even to us stays open until all below is done.
    pub fn finish_directories(&self, worker: &mut Worker) -> Result<()> {
        let mut directories = std::mem::take(&mut worker.directories);
        directories.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        for (rel, meta) in directories {
            let to = self.dst.dir(&rel)?;
            let mut likely = self.creator;
            if self.known.is_some() {
                let stat = fstat(&to).map_err(|e| self.target_failed(Operation::Inspect, &rel, e))?;
                let copy = Meta::from(&stat);
                if let Some(record) = self.unchanged(&rel, &meta, &copy)
                    && meta.atime == copy.atime
                {
                    worker.entries.push(record.clone());
                    continue;
                }
                likely = (copy.uid, copy.gid);
            }
            let from = self.src.dir(&rel).map_err(|e| self.gone(&rel, e))?;
            if self.known.is_some() {
                drop_attributes_not_in(At::Fd(from.as_fd()), to.as_fd())
                    .map_err(|e| self.target_failed(Operation::SetAttribute, &rel, e))?;
            }
            let copy =
                self.dress_entry(worker, At::Fd(from.as_fd()), &meta, At::Fd(to.as_fd()), &rel, likely)?;
            worker.entries.push(Entry::new(rel, &meta, &copy));
        }
        Ok(())
    }
}
