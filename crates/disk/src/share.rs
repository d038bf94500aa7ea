//! Sharing blocks between two files, where the file system can: no bytes are copied, and none change when one file does.

use std::fs::File;
use std::io;

use rustix::io::Errno;

use crate::ioctl;

/// Makes `length` bytes of `to` share the blocks of `from`. Offsets and length must be whole blocks. `false`: this file system
/// can't, or not these two files.
pub fn share_blocks(
    from: &File,
    from_offset: u64,
    to: &File,
    to_offset: u64,
    length: u64,
) -> io::Result<bool> {
    match ioctl::clone_range_to(to, to_offset, from, from_offset, length) {
        Ok(()) => Ok(true),
        Err(
            Errno::OPNOTSUPP
            | Errno::NOTTY
            | Errno::NOSYS
            | Errno::XDEV
            | Errno::INVAL
            | Errno::PERM
            | Errno::TXTBSY,
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
