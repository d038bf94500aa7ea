//! Making one entry that is not a directory: content, then everything else about it.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, fstat, mknodat, openat, readlinkat, symlinkat};
use rustix::io::Errno;

use super::attributes::{At, Names, Scratch, dress};
use super::content::{BUFFER, How, Transfer};
use super::copy::Warning;
use super::engine::{Engine, Pair};
use super::manifest::Entry;
use super::meta::{Kind, Meta};
use super::worker::{Worker, push_warning};
use crate::error::{Error, Operation, Result};

impl Engine<'_> {
    /// Copies one entry that is not a directory, and is not there yet. `None`: it has several names, and is
    /// put off until all are known (`defer`).
    pub fn make(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        name: &CStr,
        kind: Kind,
        rel: Vec<u8>,
        defer: bool,
    ) -> Result<Option<Entry>> {
        let (from, to) = (At::Name(pair.src.as_fd(), name), At::Name(pair.dst.as_fd(), name));
        let create = |e| self.target_failed(Operation::Create, &rel, e);
        if kind == Kind::File {
            let file = self.open_source(pair, name, || rel.clone())?;
            return self.make_file(worker, pair, name, rel, defer, file);
        }
        let meta = from.meta().map_err(|e| self.source_failed(Operation::Inspect, &rel, e))?;
        if meta.kind != kind {
            return Err(Error::Turned { path: self.src.full(&rel) });
        }
        if defer && meta.nlink > 1 {
            worker.linked.push((meta.dev, meta.ino, rel));
            return Ok(None);
        }
        let node = |file_type| {
            let mode = Mode::from_raw_mode(meta.mode & 0o777);
            mknodat(&pair.dst, name, file_type, mode, meta.rdev).map_err(create)
        };
        match kind {
            Kind::Symlink => {
                let target = readlinkat(&pair.src, name, Vec::new())
                    .map_err(|e| self.source_failed(Operation::Read, &rel, e))?;
                symlinkat(&target, &pair.dst, name).map_err(create)?;
            }
            Kind::Fifo => node(FileType::Fifo)?,
            Kind::Socket => node(FileType::Socket)?,
            Kind::CharDevice => node(FileType::CharacterDevice)?,
            Kind::BlockDevice => node(FileType::BlockDevice)?,
            Kind::Directory | Kind::File => return Err(Error::Turned { path: self.src.full(&rel) }),
        }
        let copy = self.dress_entry(worker, from, &meta, to, &rel, self.creator)?;
        worker.tally.files += 1;
        Ok(Some(Entry::new(rel, &meta, &copy)))
    }

    /// Opens a file of the source without waiting, following or leaving a trace.
    pub fn open_source(&self, pair: &Pair, name: &CStr, rel: impl Fn() -> Vec<u8>) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&pair.src, name, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => openat(&pair.src, name, flags, Mode::empty()),
            other => other,
        }
        .map_err(|e| self.source_failed(Operation::Open, &rel(), e))
    }

    pub fn make_file(
        &self,
        worker: &mut Worker,
        pair: &Pair,
        name: &CStr,
        rel: Vec<u8>,
        defer: bool,
        from: OwnedFd,
    ) -> Result<Option<Entry>> {
        let stat = fstat(&from).map_err(|e| self.source_failed(Operation::Inspect, &rel, e))?;
        let meta = Meta::from(&stat);
        if meta.kind != Kind::File {
            return Err(Error::Turned { path: self.src.full(&rel) });
        }
        if meta.nlink == 0 {
            return Err(Error::Vanished { path: self.src.full(&rel) });
        }
        if defer && meta.nlink > 1 {
            worker.linked.push((meta.dev, meta.ino, rel));
            return Ok(None);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = openat(&pair.dst, name, flags, Mode::from_raw_mode(meta.mode & 0o777))
            .map_err(|e| self.target_failed(Operation::Create, &rel, e))?;
        if worker.buffer.is_empty() && meta.size > 0 {
            worker.buffer = vec![0; BUFFER];
        }
        let how = Transfer {
            sharing: &self.sharing,
            progress: self.progress,
            buffer: &mut worker.buffer,
            pending: &mut worker.pending,
            source: &|| self.src.full(&rel),
            target: &|| self.dst.full(&rel),
        }
        .run(&from, &meta, &to, self.dst.dev)?;
        let copy =
            self.dress_entry(worker, At::Fd(from.as_fd()), &meta, At::Fd(to.as_fd()), &rel, self.creator)?;
        if copy.size != meta.size {
            worker.warn(Warning::ChangedWhileCopied { path: self.src.full(&rel) });
        }
        let tally = &mut worker.tally;
        tally.files += 1;
        tally.bytes += copy.size;
        match how {
            How::Shared => tally.shared += 1,
            How::Written => {
                tally.written += 1;
                tally.bytes_written += copy.size;
            }
            How::Both { written } => {
                tally.shared += 1;
                tally.written += 1;
                tally.bytes_written += written;
            }
            How::Nothing => {}
        }
        Ok(Some(Entry::new(rel, &meta, &copy)))
    }

    pub fn dress_entry(
        &self,
        worker: &mut Worker,
        from: At<'_>,
        meta: &Meta,
        to: At<'_>,
        rel: &[u8],
        likely: (u32, u32),
    ) -> Result<Meta> {
        let (source, target) = (|| -> PathBuf { self.src.full(rel) }, || -> PathBuf { self.dst.full(rel) });
        let names = Names { source: &source, target: &target };
        let Worker { scratch, warnings, warnings_left_out, .. } = worker;
        let scratch = scratch.get_or_insert_with(Scratch::new);
        dress(from, meta, to, likely, scratch, &names, &mut |w| push_warning(warnings, warnings_left_out, w))
    }
}
