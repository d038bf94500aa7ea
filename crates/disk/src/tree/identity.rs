//! What a path is: which file system, which tree, a mount point or not, how much room. Only asks.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags, fstat, fstatfs, openat, statvfs, statx,
};

use super::meta::Meta;
use crate::error::{Error, Operation, Result};
use crate::ioctl;

const BTRFS_MAGIC: u64 = 0x9123_683E;
/// The inode of every subvolume's root.
pub(crate) const SUBVOLUME_INODE: u64 = 256;

/// Tells two trees apart across reboots, so that after a crash one sees whether an exchange happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TreeId {
    pub ino: u64,
    /// On btrfs, where the roots of all subvolumes have the same inode.
    pub subvolume: Option<u64>,
}

/// Room for someone with our rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    pub bytes: u64,
    /// `None` where the file system makes inodes as needed.
    pub inodes: Option<u64>,
}

fn open_for_asking(path: &Path) -> Result<OwnedFd> {
    openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())
        .map_err(|e| Error::io(Operation::Open, path, e))
}

#[allow(clippy::unnecessary_cast)] // the type differs between architectures
pub(crate) fn is_btrfs(fd: impl std::os::fd::AsFd) -> bool {
    fstatfs(fd).is_ok_and(|s| s.f_type as u64 & 0xffff_ffff == BTRFS_MAGIC)
}

fn meta_of(fd: &OwnedFd, path: &Path) -> Result<Meta> {
    fstat(fd).map(|s| Meta::from(&s)).map_err(|e| Error::io(Operation::Inspect, path, e))
}

/// The identity of the directory (or file) at `path`.
pub fn identity(path: &Path) -> Result<TreeId> {
    let fd = open_for_asking(path)?;
    let ino = meta_of(&fd, path)?.ino;
    let subvolume = if is_btrfs(&fd) {
        Some(ioctl::subvolume_id(&fd).map_err(|e| Error::io(Operation::Inspect, path, e))?)
    } else {
        None
    };
    Ok(TreeId { ino, subvolume })
}

/// Whether something is mounted at `path`, be it only another directory of the same file system.
pub fn is_mount_point(path: &Path) -> Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let answer =
        statx(CWD, path, flags, StatxFlags::empty()).map_err(|e| Error::io(Operation::Inspect, path, e))?;
    Ok(answer.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Whether both paths are on one file system; subvolumes of one btrfs are.
///
/// Being on one file system does not yet mean that a rename between them works: two mounts of it, or two
/// subvolumes, refuse that.
pub fn same_filesystem(a: &Path, b: &Path) -> Result<bool> {
    let (fa, fb) = (open_for_asking(a)?, open_for_asking(b)?);
    if meta_of(&fa, a)?.dev == meta_of(&fb, b)?.dev {
        return Ok(true);
    }
    if !is_btrfs(&fa) || !is_btrfs(&fb) {
        return Ok(false);
    }
    let id =
        |fd: &OwnedFd, path: &Path| ioctl::btrfs_id(fd).map_err(|e| Error::io(Operation::Inspect, path, e));
    Ok(id(&fa, a)? == id(&fb, b)?)
}

/// What is free on the file system of `path`.
pub fn free_space(path: &Path) -> Result<Free> {
    let s = statvfs(path).map_err(|e| Error::io(Operation::FreeSpace, path, e))?;
    let inodes = (s.f_files > 0).then_some(s.f_favail);
    Ok(Free { bytes: s.f_bavail.saturating_mul(s.f_frsize), inodes })
}

/// Whether a copy of anything on the file system of `src` fits below `dst_parent`, on the same file system, beyond
/// doubt: more is free than everything on it takes together. Costs two questions instead of a walk over the tree.
pub fn fits_beyond_doubt(src: &Path, dst_parent: &Path) -> Result<bool> {
    if !same_filesystem(src, dst_parent)? {
        return Ok(false);
    }
    let s = statvfs(dst_parent).map_err(|e| Error::io(Operation::FreeSpace, dst_parent, e))?;
    let used_blocks = s.f_blocks.saturating_sub(s.f_bfree);
    let used_inodes = s.f_files.saturating_sub(s.f_ffree);
    // Every inode may need a block of its own for names and attributes.
    let blocks = used_blocks.saturating_add(used_inodes);
    Ok(s.f_bavail > blocks && (s.f_files == 0 || s.f_favail > used_inodes))
}

/// The last component of a path, as the kernel wants it.
pub(crate) fn file_name(path: &Path) -> Option<CString> {
    CString::new(path.file_name()?.as_bytes()).ok()
}
