//! Owner, mode, times and extended attributes: from one entry to its copy, with as few calls as will do.
//!
//! The order matters and lives here: owner first (changing it drops setuid and capabilities), then
//! attributes (an ACL changes the mode), then mode, then times. It must not touch content.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, Gid, Mode, Uid, XattrFlags, chmodat, chownat, fchmod, fchown, fgetxattr, flistxattr,
    fremovexattr, fsetxattr, fstat, futimens, lgetxattr, llistxattr, lsetxattr, statat, utimensat,
};
use rustix::io::Errno;

use super::copy::Warning;
use super::meta::Meta;
use crate::error::{Error, Operation, Result};

/// The kernel's own limits, for the list and for one value.
const LIST_LIMIT: usize = 64 * 1024;
const VALUE_LIMIT: usize = 64 * 1024;
pub(crate) const DEFAULT_ACL: &CStr = c"system.posix_acl_default";
pub(crate) const ACCESS_ACL: &CStr = c"system.posix_acl_access";

/// Room for attributes, made once per thread.
pub(crate) struct Scratch {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch { names: vec![0; LIST_LIMIT], value: vec![0; VALUE_LIMIT] }
    }
}

/// An entry: an open file or directory, or a name that cannot be opened (link, FIFO, socket, device).
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Fd(BorrowedFd<'a>),
    Name(BorrowedFd<'a>, &'a CStr),
}

/// Extended attributes of what cannot be opened go by a path; this one leads through our descriptor, so
/// that no directory on the way can be swapped.
fn through_proc(dir: BorrowedFd<'_>, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    CString::new(path).unwrap_or_default()
}

impl At<'_> {
    pub fn meta(self) -> rustix::io::Result<Meta> {
        match self {
            At::Fd(fd) => fstat(fd),
            At::Name(dir, name) => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
        }
        .map(|s| Meta::from(&s))
    }

    fn list(self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let listed = match self {
            At::Fd(fd) => flistxattr(fd, into),
            At::Name(dir, name) => llistxattr(through_proc(dir, name), into),
        };
        match listed {
            // The file system has no such thing as attributes.
            Err(Errno::NOTSUP | Errno::NOSYS) => Ok(0),
            other => other,
        }
    }

    fn get(self, attribute: &CStr, into: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            At::Fd(fd) => fgetxattr(fd, attribute, into),
            At::Name(dir, name) => lgetxattr(through_proc(dir, name), attribute, into),
        }
    }

    fn set(self, attribute: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        match self {
            At::Fd(fd) => fsetxattr(fd, attribute, value, XattrFlags::empty()),
            At::Name(dir, name) => lsetxattr(through_proc(dir, name), attribute, value, XattrFlags::empty()),
        }
    }

    fn set_owner(self, meta: &Meta) -> rustix::io::Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
        match self {
            At::Fd(fd) => fchown(fd, uid, gid),
            At::Name(dir, name) => chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn set_mode(self, mode: u32) -> rustix::io::Result<()> {
        match self {
            At::Fd(fd) => fchmod(fd, Mode::from_raw_mode(mode)),
            // Never called for a symbolic link, which has no mode of its own.
            At::Name(dir, name) => chmodat(dir, name, Mode::from_raw_mode(mode), AtFlags::empty()),
        }
    }

    fn set_times(self, meta: &Meta) -> rustix::io::Result<()> {
        match self {
            At::Fd(fd) => futimens(fd, &meta.times()),
            At::Name(dir, name) => utimensat(dir, name, &meta.times(), AtFlags::SYMLINK_NOFOLLOW),
        }
    }
}

/// What is needed to name an entry in messages, only when there is one.
pub(crate) struct Names<'a> {
    pub source: &'a dyn Fn() -> PathBuf,
    pub target: &'a dyn Fn() -> PathBuf,
}

/// Storage hints and labels that another file system or policy may not take; all else must be kept.
fn may_be_dropped(attribute: &CStr) -> bool {
    let name = attribute.to_bytes();
    name.starts_with(b"security.") || name.starts_with(b"btrfs.")
}

fn attribute_names(list: &[u8]) -> impl Iterator<Item = &CStr> {
    list.split_inclusive(|&b| b == 0).filter_map(|n| CStr::from_bytes_with_nul(n).ok())
}

fn copy_attributes(
    from: At<'_>,
    to: At<'_>,
    scratch: &mut Scratch,
    names: &Names<'_>,
    warn: &mut dyn FnMut(Warning),
) -> Result<bool> {
    let read = |e| Error::io(Operation::ReadAttribute, &(names.source)(), e);
    let length = from.list(&mut scratch.names).map_err(read)?;
    for attribute in attribute_names(&scratch.names[..length]) {
        let size = match from.get(attribute, &mut scratch.value) {
            Ok(size) => size,
            // Removed since it was listed.
            Err(Errno::NODATA) => continue,
            Err(e) => return Err(read(e)),
        };
        match to.set(attribute, &scratch.value[..size]) {
            Ok(()) => {}
            Err(Errno::NOTSUP | Errno::PERM | Errno::INVAL) if may_be_dropped(attribute) => {
                let name = attribute.to_string_lossy().into_owned();
                warn(Warning::AttributeDropped { path: (names.source)(), name });
            }
            Err(e @ Errno::NOTSUP) => {
                return Err(Error::AttributeUnsupported {
                    path: (names.target)(),
                    name: attribute.to_string_lossy().into_owned(),
                    source: e.into(),
                });
            }
            Err(e) => return Err(Error::io(Operation::SetAttribute, &(names.target)(), e)),
        }
    }
    Ok(length > 0)
}

/// Gives the copy `to` everything that `from` has but content, and tells what the copy is then.
///
/// `likely` is who owns a new file here, mostly: where that is already right, the call to change it is
/// saved, and the look at the result, which is needed anyway, makes sure of it.
pub(crate) fn dress(
    from: At<'_>,
    wanted: &Meta,
    to: At<'_>,
    likely: (u32, u32),
    scratch: &mut Scratch,
    names: &Names<'_>,
    warn: &mut dyn FnMut(Warning),
) -> Result<Meta> {
    let fail = |operation, e: Errno| Error::io(operation, &(names.target)(), e);
    let is_link = wanted.kind == super::meta::Kind::Symlink;
    let mut set_owner = (wanted.uid, wanted.gid) != likely;
    for _ in 0..2 {
        if set_owner {
            to.set_owner(wanted).map_err(|e| fail(Operation::SetOwner, e))?;
        }
        let attributes = copy_attributes(from, to, scratch, names, warn)?;
        // Bits that a usual umask takes away, or that creation never sets. The rest is seen below.
        if !is_link && (attributes || wanted.mode & 0o7022 != 0) {
            to.set_mode(wanted.mode).map_err(|e| fail(Operation::SetMode, e))?;
        }
        to.set_times(wanted).map_err(|e| fail(Operation::SetTimes, e))?;
        let mut result = to.meta().map_err(|e| fail(Operation::Inspect, e))?;
        if (result.uid, result.gid) != (wanted.uid, wanted.gid) {
            // A directory or a mount that hands down its group: once more, with the owner set.
            set_owner = true;
            continue;
        }
        if !is_link && result.mode != wanted.mode {
            to.set_mode(wanted.mode).map_err(|e| fail(Operation::SetMode, e))?;
            result = to.meta().map_err(|e| fail(Operation::Inspect, e))?;
        }
        return Ok(result);
    }
    Err(fail(Operation::SetOwner, Errno::PERM))
}

/// Only the times; for an entry of which nothing else differs.
pub(crate) fn set_times(to: At<'_>, wanted: &Meta) -> rustix::io::Result<Meta> {
    to.set_times(wanted)?;
    to.meta()
}

/// Removes from the directory what would be handed down to entries made in it.
pub(crate) fn stop_inheritance(dir: impl AsFd) -> rustix::io::Result<()> {
    for acl in [DEFAULT_ACL, ACCESS_ACL] {
        match fremovexattr(dir.as_fd(), acl) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => {}
            Err(e) => return Err(e),
        }
    }
    fchmod(dir, Mode::RWXU)
}

/// Removes attributes of an older state that `from` no longer has.
pub(crate) fn drop_attributes_not_in(from: At<'_>, to: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let mut have = vec![0; LIST_LIMIT];
    let length = At::Fd(to).list(&mut have)?;
    if length == 0 {
        return Ok(());
    }
    let mut keep = vec![0; LIST_LIMIT];
    let kept = from.list(&mut keep)?;
    for attribute in attribute_names(&have[..length]) {
        if !attribute_names(&keep[..kept]).any(|k| k == attribute) {
            match fremovexattr(to, attribute) {
                Ok(()) | Err(Errno::NODATA) => {}
                // A label that the system itself puts on every file cannot be taken off.
                Err(_) if may_be_dropped(attribute) => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}
