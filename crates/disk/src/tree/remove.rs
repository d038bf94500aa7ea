//! Removing a whole tree: never through a symbolic link, never across a mount point.
//!
//! A mount point anywhere inside is an error, found before anything behind it is touched; what lies before
//! it may already be gone. Subvolumes of btrfs are deleted as such.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, openat, statat, unlinkat};
use rustix::io::Errno;

use super::dir::{Root, c_name, join, list_all, split};
use super::identity::{SUBVOLUME_INODE, file_name, is_btrfs};
use super::meta::{Kind, Meta};
use super::pool::{self, Queue, backwards};
use super::progress::Progress;
use crate::durable::parent;
use crate::error::{Error, Operation, Result};
use crate::ioctl;

const BATCH: usize = 256;

/// Removes what is at `path`, whatever it is; nothing there is fine. On the calling thread.
///
/// The removal is not synced: what is removed was not needed any more.
pub fn remove(path: &Path) -> Result<()> {
    remove_with(path, 1, &())
}

/// As [`remove`], with several threads, progress and a way to stop. 0 threads: as many as suit.
pub fn remove_with(path: &Path, threads: usize, progress: &dyn Progress) -> Result<()> {
    let Some(name) = file_name(path) else {
        return Err(Error::io(Operation::Remove, path, Errno::INVAL));
    };
    let above = parent(path);
    let dir = match openat(CWD, above, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(Error::io(Operation::Open, above, e)),
    };
    remove_entry(dir.as_fd(), &name, path, threads, progress)
}

/// Removes `name` in `dir`; `path` is for messages and for asking about mounts.
pub(crate) fn remove_entry(
    dir: BorrowedFd<'_>,
    name: &CStr,
    path: &Path,
    threads: usize,
    progress: &dyn Progress,
) -> Result<()> {
    let fail = |e| Error::io(Operation::Remove, path, e);
    let meta = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Meta::from(&stat),
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(Error::io(Operation::Inspect, path, e)),
    };
    if meta.kind != Kind::Directory {
        unlink(dir, name, AtFlags::empty()).map_err(fail)?;
        progress.advance(1, 0);
        return Ok(());
    }
    if is_mounted(dir, name, path)? {
        return Err(Error::MountPoint { path: path.to_owned() });
    }
    if meta.ino == SUBVOLUME_INODE && is_btrfs(dir) && ioctl::destroy_subvolume(dir, name).is_ok() {
        return Ok(());
    }
    let tree = Tree { root: open_root(dir, name, path)?, progress };
    tree.empty(threads)?;
    match unlink(dir, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        // Where subvolumes may be deleted by their owner only as directories, or the other way about.
        Err(e) if meta.ino == SUBVOLUME_INODE => ioctl::destroy_subvolume(dir, name).map_err(|_| fail(e)),
        Err(e) => Err(fail(e)),
    }
}

fn is_mounted(dir: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(dir, name, flags, rustix::fs::StatxFlags::empty())
        .map(|s| s.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT))
        .map_err(|e| Error::io(Operation::Inspect, path, e))
}

fn open_root(dir: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<Root> {
    let open = || Root::open_at(dir, name, path);
    match open() {
        // Ours, but without the right to list it: give us that right.
        Err(e) if e.is_denied() => {
            rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty()).map_err(|_| e)?;
            open()
        }
        other => other,
    }
}

/// Unlinks; a directory of ours that is closed to us is opened up first.
fn unlink(dir: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> rustix::io::Result<()> {
    match unlinkat(dir, name, flags) {
        Err(Errno::ACCESS) => {
            fchmod(dir, Mode::RWXU)?;
            unlinkat(dir, name, flags)
        }
        other => other,
    }
}

enum Task {
    Directory(Vec<u8>),
    Names(Arc<(Vec<u8>, OwnedFd)>, Vec<std::ffi::CString>),
}

struct Tree<'a> {
    root: Root,
    progress: &'a dyn Progress,
}

impl Tree<'_> {
    fn empty(&self, threads: usize) -> Result<()> {
        let found =
            pool::run(threads, [Task::Directory(Vec::new())], Vec::new, |queue, dirs, task| match task {
                Task::Directory(rel) => self.directory(queue, dirs, rel),
                Task::Names(dir, names) => self.names(&dir.0, dir.1.as_fd(), &names),
            })?;
        // Sorted, a directory comes before what is in it; backwards, everything is empty by its turn.
        let mut dirs: Vec<Vec<u8>> = found.into_iter().flatten().collect();
        dirs.sort_unstable();
        let mut at: Option<(Vec<u8>, OwnedFd)> = None;
        for rel in dirs.iter().rev().filter(|rel| !rel.is_empty()) {
            let (above, name) = split(rel);
            let full = self.root.full(rel);
            let dir = match at.take() {
                Some((path, fd)) if path == above => fd,
                _ => self.open(above)?,
            };
            let name = c_name(name);
            let removed = match unlink(dir.as_fd(), &name, AtFlags::REMOVEDIR) {
                // The root of a nested subvolume, emptied, on a kernel that wants to be asked so.
                Err(e) if is_btrfs(&dir) => ioctl::destroy_subvolume(&dir, &name).map_err(|_| e),
                other => other,
            };
            removed.map_err(|e| Error::io(Operation::Remove, &full, e))?;
            at = Some((above.to_vec(), dir));
        }
        Ok(())
    }

    fn open(&self, rel: &[u8]) -> Result<OwnedFd> {
        match self.root.dir_of_same_mount(rel) {
            Ok(fd) => Ok(fd),
            Err(Errno::XDEV) => Err(Error::MountPoint { path: self.root.full(rel) }),
            Err(Errno::ACCESS) => {
                let (above, name) = split(rel);
                let fail = |e| Error::io(Operation::Open, &self.root.full(rel), e);
                let dir = self.root.dir_of_same_mount(above).map_err(fail)?;
                rustix::fs::chmodat(&dir, c_name(name), Mode::RWXU, AtFlags::empty()).map_err(fail)?;
                self.root.dir_of_same_mount(rel).map_err(fail)
            }
            Err(e) => Err(Error::io(Operation::Open, &self.root.full(rel), e)),
        }
    }

    fn directory(&self, queue: &Queue<'_, Task>, dirs: &mut Vec<Vec<u8>>, rel: Vec<u8>) -> Result<()> {
        if self.progress.cancelled() {
            return Err(Error::Cancelled);
        }
        let fd = self.open(&rel)?;
        let mut entries = list_all(&self.root, &rel, fd.as_fd())?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        dirs.push(rel.clone());
        let (below, names): (Vec<_>, Vec<_>) = entries.into_iter().partition(|e| e.kind == Kind::Directory);
        queue.push(below.iter().rev().map(|e| Task::Directory(join(&rel, e.name.to_bytes()))));
        let names = names.into_iter().map(|e| e.name).collect();
        let dir = Arc::new((rel, fd));
        queue.push(backwards(names, BATCH).into_iter().map(|batch| Task::Names(Arc::clone(&dir), batch)));
        Ok(())
    }

    fn names(&self, rel: &[u8], dir: BorrowedFd<'_>, names: &[std::ffi::CString]) -> Result<()> {
        for name in names {
            let full = || -> PathBuf { self.root.full(&join(rel, name.to_bytes())) };
            match unlink(dir, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::BUSY) => return Err(Error::MountPoint { path: full() }),
                Err(e) => return Err(Error::io(Operation::Remove, &full(), e)),
            }
        }
        self.progress.advance(names.len() as u64, 0);
        if self.progress.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}
