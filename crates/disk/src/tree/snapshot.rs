//! Snapshots of btrfs subvolumes: whether one will do instead of a copy, and taking it.

use std::ffi::CString;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::copy::{Copied, CopyOptions, Method};
use super::dir::{Root, is_reserved, list_all};
use super::identity::{SUBVOLUME_INODE, file_name, is_btrfs};
use super::meta::{Meta, Time};
use super::remove::remove_entry;
use crate::durable::parent;
use crate::error::{Error, Operation, Result};
use crate::ioctl;

pub(crate) enum Offer {
    Yes,
    /// Not a subvolume, or not one file system.
    No,
    /// It could be, but the result would not be a whole copy.
    Declined(&'static str),
}

fn open_parent(dst: &Path) -> Result<std::os::fd::OwnedFd> {
    let above = parent(dst);
    openat(CWD, above, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Error::io(Operation::Open, above, e))
}

pub(crate) fn offer(src: &Root, dst: &Path) -> Result<Offer> {
    if src.ino != SUBVOLUME_INODE || !is_btrfs(src.fd()) {
        return Ok(Offer::No);
    }
    let above = open_parent(dst)?;
    if !is_btrfs(&above) {
        return Ok(Offer::No);
    }
    match (ioctl::btrfs_id(src.fd()), ioctl::btrfs_id(&above)) {
        (Ok(a), Ok(b)) if a == b => {}
        _ => return Ok(Offer::No),
    }
    Ok(match ioctl::has_nested_subvolumes(src.fd()) {
        Ok(false) => Offer::Yes,
        Ok(true) => Offer::Declined("a snapshot would leave out the subvolumes inside"),
        Err(_) => Offer::Declined("the kernel does not tell whether there are subvolumes inside"),
    })
}

pub(crate) fn take(src: &Root, dst: &Path, options: &CopyOptions, started: Time) -> Result<Copied> {
    let name: CString = file_name(dst).ok_or_else(|| Error::io(Operation::Snapshot, dst, Errno::INVAL))?;
    let above = open_parent(dst)?;
    match ioctl::snapshot(src.fd(), &above, &name) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Error::Exists { path: dst.to_owned() }),
        Err(e) => return Err(Error::io(Operation::Snapshot, &src.path, e)),
    }
    let copy = Root::open(dst)?;
    drop_reserved(src, &copy)?;
    if options.sync {
        rustix::fs::syncfs(copy.fd()).map_err(|e| Error::io(Operation::SyncFileSystem, dst, e))?;
    }
    Ok(Copied {
        method: Method::Snapshot,
        files: 0,
        bytes: 0,
        bytes_written: 0,
        left_alone: 0,
        warnings: Vec::new(),
        warnings_left_out: 0,
        started,
        manifest: None,
    })
}

/// What a copy would have left out is taken out of the snapshot, and the root's times are put back.
fn drop_reserved(src: &Root, copy: &Root) -> Result<()> {
    let mut entries = list_all(copy, &[], copy.fd())?;
    entries.retain(|e| is_reserved(&[], &e.name));
    if entries.is_empty() {
        return Ok(());
    }
    for entry in entries {
        let path = copy.full(entry.name.to_bytes());
        remove_entry(copy.fd(), &entry.name, &path, 1, &())?;
    }
    let stat = fstat(src.fd()).map_err(|e| Error::io(Operation::Inspect, &src.path, e))?;
    rustix::fs::futimens(copy.fd(), &Meta::from(&stat).times())
        .map_err(|e| Error::io(Operation::SetTimes, &copy.path, e))
}
