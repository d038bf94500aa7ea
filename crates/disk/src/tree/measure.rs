//! What a copy would really take on disk, before the first byte is written.
//!
//! Apparent size is wrong both ways: holes and shared content take nothing, small files take a block.
//! Creates and removes one probe file in the target directory; writes nothing to the source.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ioctl_ficlone, openat, unlinkat};

use super::content::fragmented;
use super::copy::Method;
use super::dir::{Root, c_name, split};
use super::identity::same_filesystem;
use super::meta::{Kind, Meta};
use super::progress::Progress;
use super::snapshot::{self, Offer};
use super::survey::Walk;
use crate::RESERVED_PREFIX;
use crate::error::{Error, Operation, Result};

/// An inode, its name, and its share of the trees that lead to it; generous.
const METADATA_PER_INODE: u64 = 1024;
const BLOCK: u64 = 4096;
/// A snapshot's own trees.
const SNAPSHOT_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Bytes that a copy takes on the target file system.
    pub bytes: u64,
    /// The same with [`super::ClonePolicy::Always`]: less where fragmented files would be written out.
    pub least_bytes: u64,
    pub inodes: u64,
    /// Entries that are not directories, and apparent bytes in them: the whole of what progress will report.
    /// Both 0 for a snapshot, which does not look at files.
    pub files: u64,
    pub apparent_bytes: u64,
    pub method: Method,
}

#[derive(Default)]
struct Sum {
    files: u64,
    directories: u64,
    directory_bytes: u64,
    apparent: u64,
    data: u64,
    fragmented: u64,
    /// Device, inode, bytes, apparent bytes of files with several names; each counts once.
    linked: Vec<(u64, u64, u64, u64, bool)>,
    /// The smallest file with content, to try sharing with.
    probe: Option<(u64, Vec<u8>)>,
}

/// Bytes that a plain copy of a file allocates.
fn data_of(meta: &Meta, same: bool) -> u64 {
    let whole = meta.size.div_ceil(BLOCK).saturating_mul(BLOCK);
    // Fewer blocks than bytes: holes, or compression. Only where the copy goes to the same file system is it
    // compressed again; holes are kept anywhere, but cannot be told from compression here.
    if meta.allocated >= meta.size || (!same && meta.allocated > 0) || meta.size <= BLOCK {
        whole
    } else {
        meta.allocated
    }
}

/// What copying `src` into a new directory in `dst_parent` takes. 0 threads: as many as suit.
pub fn measure(src: &Path, dst_parent: &Path, threads: usize, progress: &dyn Progress) -> Result<Need> {
    let root = Root::open(src)?;
    if matches!(snapshot::offer(&root, &dst_parent.join("x"))?, Offer::Yes) {
        return Ok(Need {
            bytes: SNAPSHOT_BYTES,
            least_bytes: SNAPSHOT_BYTES,
            inodes: 1,
            files: 0,
            apparent_bytes: 0,
            method: Method::Snapshot,
        });
    }
    let same = same_filesystem(src, dst_parent)?;
    let walk = Walk { root: &root, threads, progress };
    let sums = walk.run(Sum::default, |sum, visit| {
        let meta = &visit.meta;
        if meta.kind == Kind::Directory {
            sum.directories += 1;
            sum.directory_bytes += meta.allocated.max(meta.size.min(BLOCK));
            return Ok(true);
        }
        sum.files += 1;
        if meta.kind == Kind::File && meta.size > 0 {
            let data = data_of(meta, same);
            let broken = same
                && visit.name.is_some_and(|listed| {
                    meta.size >= super::content::WORTH_ASKING
                        && openat(
                            visit.at,
                            &listed.name,
                            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                            Mode::empty(),
                        )
                        .is_ok_and(|fd| fragmented(fd, meta.size, meta.allocated))
                });
            if meta.nlink > 1 {
                sum.linked.push((meta.dev, meta.ino, data, meta.size, broken));
            } else {
                sum.add(data, meta.size, broken);
            }
            if sum.probe.as_ref().is_none_or(|(size, _)| meta.size < *size) {
                sum.probe = Some((meta.size, visit.rel));
            }
        }
        Ok(true)
    })?;
    let mut total = Sum::default();
    sums.into_iter().for_each(|s| total.absorb(s));
    total.linked.sort_unstable();
    total.linked.dedup();
    for (_, _, data, apparent, broken) in std::mem::take(&mut total.linked) {
        total.add(data, apparent, broken);
    }
    let shares = match &total.probe {
        Some((_, rel)) if same => probe(&root, rel, dst_parent)?,
        _ => false,
    };
    let inodes = total.files + total.directories;
    let metadata = inodes * METADATA_PER_INODE + total.directory_bytes;
    let (data, least, method) = match (shares, total.fragmented) {
        (false, _) => (total.data, total.data, Method::PlainCopy),
        (true, 0) => (0, 0, Method::Reflink),
        (true, fragmented) => (fragmented, 0, Method::Mixed),
    };
    Ok(Need {
        bytes: data + metadata,
        least_bytes: least + metadata,
        inodes,
        files: total.files,
        apparent_bytes: total.apparent,
        method,
    })
}

impl Sum {
    fn add(&mut self, data: u64, apparent: u64, broken: bool) {
        self.data += data;
        self.apparent += apparent;
        self.fragmented += if broken { data } else { 0 };
    }

    fn absorb(&mut self, other: Sum) {
        self.files += other.files;
        self.directories += other.directories;
        self.directory_bytes += other.directory_bytes;
        self.apparent += other.apparent;
        self.data += other.data;
        self.fragmented += other.fragmented;
        self.linked.extend(other.linked);
        self.probe = match (self.probe.take(), other.probe) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Whether the target can share content with the source: tried with one small file, which is the only
/// answer that is never wrong.
fn probe(root: &Root, rel: &[u8], dst_parent: &Path) -> Result<bool> {
    let (above, name) = split(rel);
    let dir = root.dir(above)?;
    let from = openat(&dir, c_name(name), OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| Error::io(Operation::Open, &root.full(rel), e))?;
    let path = dst_parent.join(format!("{RESERVED_PREFIX}tmp-probe-{}", std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|e| Error::io(Operation::Create, &path, e))?;
    let shared = ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok();
    unlinkat(CWD, &path, AtFlags::empty()).map_err(|e| Error::io(Operation::Remove, &path, e))?;
    Ok(shared)
}
