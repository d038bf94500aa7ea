//! The few ioctls that rustix does not wrap: FIEMAP, FICLONERANGE, and snapshots and subvolumes of btrfs.
//!
//! The only module with `unsafe`: an ioctl is described to rustix by number and argument type, and the
//! compiler cannot check that the two belong together. Each does so here, against `linux/fiemap.h`,
//! `linux/fs.h` and `linux/btrfs.h`. It must hold no decisions: each function is one system call.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

const BTRFS: u8 = 0x94;

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}
const FIEMAP: Opcode = opcode::read_write::<Fiemap>(b'f', 11);

/// The number of extents in a range of a file, without listing them.
pub fn extent_count(fd: impl AsFd, start: u64, length: u64) -> Result<u32> {
    let mut map = Fiemap { start, length, flags: 0, mapped_extents: 0, extent_count: 0, reserved: 0 };
    // SAFETY: FIEMAP takes a `struct fiemap`; with an extent count of 0 the kernel writes nothing behind it.
    unsafe { ioctl(fd, Updater::<FIEMAP, Fiemap>::new(&mut map)) }?;
    Ok(map.mapped_extents)
}

#[repr(C)]
struct CloneRange {
    from: i64,
    from_offset: u64,
    length: u64,
    to_offset: u64,
}
const CLONE_RANGE: Opcode = opcode::write::<CloneRange>(BTRFS, 13);

/// Shares `length` bytes at `offset` of `from` with the same place of `to`.
pub fn clone_range(to: impl AsFd, from: impl AsFd, offset: u64, length: u64) -> Result<()> {
    clone_range_to(to, offset, from, offset, length)
}

/// Shares `length` bytes at one place of `from` with another place of `to`.
pub fn clone_range_to(
    to: impl AsFd,
    to_offset: u64,
    from: impl AsFd,
    from_offset: u64,
    length: u64,
) -> Result<()> {
    let from = i64::from(from.as_fd().as_raw_fd());
    let args = CloneRange { from, from_offset, length, to_offset };
    // SAFETY: FICLONERANGE, whose number is btrfs's for historical reasons, reads a `struct file_clone_range`.
    unsafe { ioctl(to, Setter::<CLONE_RANGE, CloneRange>::new(args)) }
}

#[repr(C)]
struct VolArgs {
    fd: i64,
    name: [u8; 4088],
}
#[repr(C)]
struct VolArgsV2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}
const SNAP_DESTROY: Opcode = opcode::write::<VolArgs>(BTRFS, 15);
const SNAP_CREATE_V2: Opcode = opcode::write::<VolArgsV2>(BTRFS, 23);

fn fill(name: &CStr, into: &mut [u8]) -> Result<()> {
    let bytes = name.to_bytes_with_nul();
    into.get_mut(..bytes.len()).ok_or(Errno::NAMETOOLONG)?.copy_from_slice(bytes);
    Ok(())
}

/// Makes `name` in the directory `parent` a writable snapshot of the subvolume `source`.
pub fn snapshot(source: impl AsFd, parent: impl AsFd, name: &CStr) -> Result<()> {
    let fd = i64::from(source.as_fd().as_raw_fd());
    let mut args = VolArgsV2 { fd, transid: 0, flags: 0, unused: [0; 4], name: [0; 4040] };
    fill(name, &mut args.name)?;
    // SAFETY: BTRFS_IOC_SNAP_CREATE_V2 reads a `struct btrfs_ioctl_vol_args_v2`; the name ends with a zero.
    unsafe { ioctl(parent, Setter::<SNAP_CREATE_V2, VolArgsV2>::new(args)) }
}

/// Deletes the subvolume `name` in the directory `parent`.
pub fn destroy_subvolume(parent: impl AsFd, name: &CStr) -> Result<()> {
    let mut args = VolArgs { fd: 0, name: [0; 4088] };
    fill(name, &mut args.name)?;
    // SAFETY: BTRFS_IOC_SNAP_DESTROY reads a `struct btrfs_ioctl_vol_args`; the name ends with a zero.
    unsafe { ioctl(parent, Setter::<SNAP_DESTROY, VolArgs>::new(args)) }
}

#[repr(C)]
struct SubvolInfo {
    treeid: u64,
    rest: [u64; 62],
}
const GET_SUBVOL_INFO: Opcode = opcode::read::<SubvolInfo>(BTRFS, 60);

/// The id of the subvolume that `fd` lies in.
pub fn subvolume_id(fd: impl AsFd) -> Result<u64> {
    // SAFETY: BTRFS_IOC_GET_SUBVOL_INFO writes a `struct btrfs_ioctl_get_subvol_info_args` of 504 bytes.
    let info = unsafe { ioctl(fd, Getter::<GET_SUBVOL_INFO, SubvolInfo>::new()) }?;
    let SubvolInfo { treeid, rest: _ } = info;
    Ok(treeid)
}

#[repr(C)]
struct RootRefs {
    min_treeid: u64,
    refs: [[u64; 2]; 255],
    count: u8,
    align: [u8; 7],
}
const GET_SUBVOL_ROOTREF: Opcode = opcode::read_write::<RootRefs>(BTRFS, 61);

/// Whether the subvolume whose root is `fd` contains other subvolumes.
pub fn has_nested_subvolumes(fd: impl AsFd) -> Result<bool> {
    let mut refs = RootRefs { min_treeid: 0, refs: [[0; 2]; 255], count: 0, align: [0; 7] };
    // SAFETY: BTRFS_IOC_GET_SUBVOL_ROOTREF updates a `struct btrfs_ioctl_get_subvol_rootref_args`.
    match unsafe { ioctl(fd, Updater::<GET_SUBVOL_ROOTREF, RootRefs>::new(&mut refs)) } {
        Ok(()) => Ok(refs.count > 0),
        // More than fit into one answer.
        Err(Errno::OVERFLOW) => Ok(true),
        Err(e) => Err(e),
    }
}

#[repr(C)]
struct FsInfo {
    max_id: u64,
    num_devices: u64,
    fsid: [u8; 16],
    rest: [u64; 124],
}
const FS_INFO: Opcode = opcode::read::<FsInfo>(BTRFS, 31);

/// The identity of a whole btrfs, which subvolumes share although their device numbers differ.
pub fn btrfs_id(fd: impl AsFd) -> Result<[u8; 16]> {
    // SAFETY: BTRFS_IOC_FS_INFO writes a `struct btrfs_ioctl_fs_info_args` of 1024 bytes; all zero asks
    // for no optional fields.
    let mut info = FsInfo { max_id: 0, num_devices: 0, fsid: [0; 16], rest: [0; 124] };
    unsafe { ioctl(fd, Updater::<FS_INFO, FsInfo>::new(&mut info)) }?;
    Ok(info.fsid)
}
