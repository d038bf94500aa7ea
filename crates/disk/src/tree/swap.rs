//! Exchanging the contents of two directories, where the directory itself cannot be renamed: a mount point.
//!
//! Children move by renames, first all of `dir` to `outgoing`, then all of `incoming` to `dir`. The one
//! question that names cannot answer after a crash is whether something in `dir` is old or already new; a
//! marker in `incoming`, synced between the two halves, answers it, and stays there when all is done so
//! that a further call finds nothing to do.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, RenameFlags, StatxAttributes, StatxFlags, fsync, renameat_with, statat, statx};
use rustix::io::Errno;

use super::attributes::{At, Names, Scratch, dress};
use super::dir::{Listed, Order, Root, list};
use super::meta::Meta;
use crate::durable::write_durably;
use crate::error::{Error, Operation, Result};

const MARKER: &str = ".holdfast-swap-emptied";

/// Moves every child of `dir` into `outgoing`, and every child of `incoming` into `dir`; all three are
/// directories of one mount. Names with [`crate::RESERVED_PREFIX`] stay where they are, in all three, so
/// `incoming` and `outgoing` may lie in `dir` under such a name.
///
/// Owner, mode and attributes of `dir` itself go to `outgoing`, and those of `incoming` to `dir`; times do
/// not, since moving children changes them.
///
/// After a crash at any point, call it again with the same arguments: it goes on where it was, and does
/// nothing when it was done. When `incoming` is not there any more, it counts as done: the caller removes it
/// only after this has returned.
pub fn swap_contents(dir: &Path, incoming: &Path, outgoing: &Path) -> Result<()> {
    let new = match Root::open(incoming) {
        Ok(new) => new,
        Err(e) if e.is_not_found() => return Ok(()),
        Err(e) => return Err(e),
    };
    let (here, old) = (Root::open(dir)?, Root::open(outgoing)?);
    let marked = match statat(new.fd(), MARKER, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => true,
        Err(Errno::NOENT) => false,
        Err(e) => return Err(Error::io(Operation::Inspect, &incoming.join(MARKER), e)),
    };
    if !marked {
        // Whatever would stop a move stops it before the first one.
        movable(&here)?;
        movable(&new)?;
        dress_root(&here, &old)?;
        move_all(&here, &old)?;
        write_durably(
            &incoming.join(MARKER),
            b"the directory was emptied; what is in it now came from here\n",
        )?;
    }
    move_all(&new, &here)?;
    dress_root(&new, &here)?;
    sync(&here)
}

fn sync(root: &Root) -> Result<()> {
    fsync(root.fd()).map_err(|e| Error::io(Operation::Sync, &root.path, e))
}

/// The children that are to move. Listed from a descriptor of its own, which starts at the beginning.
fn children(root: &Root) -> Result<Vec<Listed>> {
    list(root, &[], root.dir(&[])?, Order::Name)
}

/// No child may be a mount point; the kernel would refuse its rename, in the middle of all others.
fn movable(root: &Root) -> Result<()> {
    for entry in children(root)? {
        let path = root.full(entry.name.to_bytes());
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let answer = statx(root.fd(), &entry.name, flags, StatxFlags::empty())
            .map_err(|e| Error::io(Operation::Inspect, &path, e))?;
        if answer.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            return Err(Error::MountPoint { path });
        }
    }
    Ok(())
}

fn move_all(from: &Root, to: &Root) -> Result<()> {
    for entry in children(from)? {
        move_one(from, &entry.name, to)?;
    }
    // The one that gained names first: a crash in between may show a name twice, never not at all.
    sync(to)?;
    sync(from)
}

fn move_one(from: &Root, name: &CString, to: &Root) -> Result<()> {
    let path = to.path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let failed = |e: Errno| match e {
        Errno::EXIST => Error::Exists { path: path.clone() },
        e => Error::io(Operation::Rename, &from.full(name.to_bytes()), e),
    };
    match renameat_with(from.fd(), name, to.fd(), name, RenameFlags::NOREPLACE) {
        // A file system that cannot refuse to replace: look first. The caller holds the lock.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(to.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(failed(Errno::EXIST)),
            Err(_) => rustix::fs::renameat(from.fd(), name, to.fd(), name).map_err(failed),
        },
        other => other.map_err(failed),
    }
}

/// Gives `to` the owner, mode and attributes of `from`, and leaves its times.
fn dress_root(from: &Root, to: &Root) -> Result<()> {
    let look = |root: &Root| -> Result<Meta> {
        At::Fd(root.fd().as_fd()).meta().map_err(|e| Error::io(Operation::Inspect, &root.path, e))
    };
    let (source, target) = (look(from)?, look(to)?);
    let wanted = Meta { atime: target.atime, mtime: target.mtime, ..source };
    let names = Names { source: &|| from.path.clone(), target: &|| to.path.clone() };
    let likely = (target.uid, target.gid);
    let mut scratch = Scratch::new();
    super::attributes::drop_attributes_not_in(At::Fd(from.fd()), to.fd())
        .map_err(|e| Error::io(Operation::SetAttribute, &to.path, e))?;
    dress(At::Fd(from.fd()), &wanted, At::Fd(to.fd()), likely, &mut scratch, &names, &mut |_| {})?;
    Ok(())
}
