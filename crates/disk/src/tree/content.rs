//! The bytes of one file into another: shared where the file system can, copied where it cannot or where
//! sharing would take longer. It must not touch anything but content.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::fs::{
    Advice, Mode, OFlags, SeekFrom, fadvise, fdatasync, fstat, ftruncate, ioctl_ficlone, openat, seek,
};
use rustix::io::{Errno, pread, pwrite};

use super::copy::ClonePolicy;
use super::dir::Root;
use super::identity::is_btrfs;
use super::meta::Meta;
use super::pace::{PIECE, Pace, Way, choose};
use super::progress::Progress;
use crate::error::{Error, Operation, Result};
use crate::ioctl;

/// What is read and written in one call.
pub(crate) const BUFFER: usize = 256 * 1024;
/// Between two looks at whether to stop.
const STRIDE: u64 = 8 * 1024 * 1024;
/// Below this, asking for the number of extents costs more than a bad choice.
pub(crate) const WORTH_ASKING: u64 = 256 * 1024;
/// So few are shared in a few milliseconds, and take no room: never worth writing out.
const FEW_EXTENTS: u128 = 64;
/// What sharing may cost per extent on the slowest kernels, and bytes written in a second: a file for which
/// these speak for sharing is shared without measuring.
const EXTENT_NANOS: u64 = 55_000;
const BYTES_PER_SECOND: u64 = 1 << 30;
/// Extents are counted in so many steps, of so many bytes at least.
const LOOKS: u64 = 16;
const LOOK: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Shared,
    Written,
    /// Some pieces shared, and this many bytes written.
    Both {
        written: u64,
    },
    /// An empty file.
    Nothing,
}

/// Whether files of one device can share content with files of another, learnt by trying.
pub(crate) struct Sharing {
    policy: ClonePolicy,
    impossible: Mutex<Vec<(u64, u64)>>,
    /// How fast writing through to the disk was, once that was tried.
    writing: Mutex<Option<Pace>>,
}

/// The answers that mean "not between these two file systems", not "not this file".
pub(crate) fn means_never(e: Errno) -> bool {
    matches!(e, Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS)
}

/// Whether so fragmented a file may be copied faster than shared: measuring decides, while it is copied.
pub(crate) fn fragmented(fd: impl AsFd, size: u64, allocated: u64) -> bool {
    if size < WORTH_ASKING {
        return false;
    }
    let write = u128::from(allocated.min(size)) * 1_000_000_000 / u128::from(BYTES_PER_SECOND);
    let enough = (write / u128::from(EXTENT_NANOS) + 1).max(FEW_EXTENTS);
    // Counting them takes a tenth of the time of sharing them, so it ends when there are enough.
    let step = (size / LOOKS).max(LOOK);
    let (mut at, mut extents) = (0, 0);
    while at < size && extents < enough {
        let Ok(more) = ioctl::extent_count(&fd, at, step) else { return false };
        extents += u128::from(more);
        at = at.saturating_add(step);
    }
    extents >= enough
}

impl Sharing {
    pub fn new(policy: ClonePolicy) -> Sharing {
        Sharing { policy, impossible: Mutex::new(Vec::new()), writing: Mutex::new(None) }
    }

    /// Finds out without a file of the source, and remembers a no.
    pub fn find_out(&self, src: &Root, dst: &Root) -> bool {
        let pair = (src.dev, dst.dev);
        if !self.possible(pair) {
            return false;
        }
        // Subvolumes of one btrfs have device numbers of their own.
        let related = src.dev == dst.dev || (is_btrfs(src.fd()) && is_btrfs(dst.fd()));
        let unnamed = || {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            openat(dst.fd(), ".", flags, Mode::RUSR | Mode::WUSR)
        };
        let refused = match (unnamed(), unnamed()) {
            (Ok(a), Ok(b)) => ioctl_ficlone(a, b).is_err_and(means_never),
            // Then the first real file will tell.
            _ => false,
        };
        if !related || refused {
            self.remember(pair);
        }
        related && !refused
    }

    fn possible(&self, pair: (u64, u64)) -> bool {
        self.policy != ClonePolicy::Never
            && !self.impossible.lock().unwrap_or_else(PoisonError::into_inner).contains(&pair)
    }

    /// Whether content must be read for sure, so that reading ahead pays.
    pub fn known_impossible(&self, pair: (u64, u64)) -> bool {
        !self.possible(pair)
    }

    fn remember(&self, pair: (u64, u64)) {
        let mut list = self.impossible.lock().unwrap_or_else(PoisonError::into_inner);
        if !list.contains(&pair) {
            list.push(pair);
        }
    }
}

pub(crate) struct Transfer<'a> {
    pub sharing: &'a Sharing,
    pub progress: &'a dyn Progress,
    pub buffer: &'a mut [u8],
    /// Bytes done that have not been told yet.
    pub pending: &'a mut u64,
    pub source: &'a dyn Fn() -> PathBuf,
    pub target: &'a dyn Fn() -> PathBuf,
}

impl Transfer<'_> {
    /// Fills the new, empty file `to`. Holes stay holes. Not more than the size at opening is copied, so a
    /// file that grows does not keep us here; one that shrinks ends where it ends.
    pub fn run(&mut self, from: impl AsFd, meta: &Meta, to: impl AsFd, to_dev: u64) -> Result<How> {
        let (from, to) = (from.as_fd(), to.as_fd());
        if meta.size == 0 {
            return Ok(How::Nothing);
        }
        let pair = (meta.dev, to_dev);
        if self.sharing.possible(pair) {
            if self.sharing.policy != ClonePolicy::Always && fragmented(from, meta.size, meta.allocated) {
                return self.piece_by_piece(from, meta, to, pair);
            }
            if self.shared(ioctl_ficlone(to, from), pair)? {
                *self.pending += meta.size;
                return Ok(How::Shared);
            }
        }
        self.write(from, meta, to, 0..meta.size)?;
        Ok(How::Written)
    }

    /// Whether sharing worked. Where it can't, for this file or at all, the content is to be written.
    fn shared(&self, outcome: rustix::io::Result<()>, pair: (u64, u64)) -> Result<bool> {
        match outcome {
            Ok(()) => return Ok(true),
            Err(e) if means_never(e) => self.sharing.remember(pair),
            // Not this file: other alignment, a swap file, no copy-on-write for it.
            Err(Errno::INVAL | Errno::TXTBSY | Errno::PERM) => {}
            Err(e) => return Err(Error::io(Operation::Clone, &(self.target)(), e)),
        }
        Ok(false)
    }

    /// Shares a fragmented file in pieces for as long as that is the faster way, and writes the rest.
    fn piece_by_piece(
        &mut self,
        from: BorrowedFd<'_>,
        meta: &Meta,
        to: BorrowedFd<'_>,
        pair: (u64, u64),
    ) -> Result<How> {
        let mut pace = Pace::default();
        let (mut at, mut written) = (0, 0);
        while at < meta.size {
            let left = meta.size - at;
            let known = *self.sharing.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let began = Instant::now();
            match choose(left, pace, known) {
                Way::Share => {
                    let piece = PIECE.min(left);
                    // The last piece is refused if the file grew or shrank meanwhile: then the rest is written.
                    if self.shared(ioctl::clone_range(to, from, at, piece), pair)? {
                        pace.add(piece, began.elapsed());
                        at += piece;
                        self.advance(piece)?;
                        continue;
                    }
                }
                Way::TryWriting(bytes) => {
                    let end = at + bytes.min(left);
                    if !self.write(from, meta, to, at..end)? {
                        return Ok(How::Both { written: written + left });
                    }
                    fdatasync(to).map_err(|e| Error::io(Operation::Sync, &(self.target)(), e))?;
                    let tried = Pace { bytes: end - at, took: began.elapsed() };
                    *self.sharing.writing.lock().unwrap_or_else(PoisonError::into_inner) = Some(tried);
                    written += end - at;
                    at = end;
                    continue;
                }
                Way::Write => {}
            }
            self.write(from, meta, to, at..meta.size)?;
            written += left;
            break;
        }
        Ok(match written {
            0 => How::Shared,
            all if all == meta.size => How::Written,
            written => How::Both { written },
        })
    }

    /// Copies a range of the file, without its holes; `false` if the file ended before.
    fn write(
        &mut self,
        from: BorrowedFd<'_>,
        meta: &Meta,
        to: BorrowedFd<'_>,
        range: Range<u64>,
    ) -> Result<bool> {
        if meta.allocated >= meta.size {
            return self.span(from, to, range.start, range.end);
        }
        let read = |e| Error::io(Operation::Read, &(self.source)(), e);
        // At first: what XFS sets aside behind the end of a growing file would fill the holes.
        ftruncate(to, range.end).map_err(|e| Error::io(Operation::Truncate, &(self.target)(), e))?;
        let mut at = range.start;
        while at < range.end {
            let start = match seek(from, SeekFrom::Data(at)) {
                Ok(start) => start,
                // Nothing but hole up to the end.
                Err(Errno::NXIO) => break,
                // The file system knows no holes.
                Err(Errno::INVAL) => at,
                Err(e) => return Err(read(e)),
            };
            let end = match seek(from, SeekFrom::Hole(start)) {
                Ok(end) => end.min(range.end),
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL) => range.end,
                Err(e) => return Err(read(e)),
            };
            if start < end && !self.span(from, to, start, end)? {
                let now = fstat(from).map_err(|e| Error::io(Operation::Inspect, &(self.source)(), e))?;
                let now = Meta::from(&now).size.min(range.end);
                ftruncate(to, now).map_err(|e| Error::io(Operation::Truncate, &(self.target)(), e))?;
                return Ok(false);
            }
            at = end.max(at + 1);
        }
        Ok(true)
    }

    fn advance(&mut self, bytes: u64) -> Result<()> {
        *self.pending += bytes;
        if *self.pending >= STRIDE {
            self.progress.advance(0, std::mem::take(self.pending));
            if self.progress.cancelled() {
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }

    /// Copies bytes `start..end`; `false` if the file ended before.
    fn span(&mut self, from: impl AsFd, to: impl AsFd, start: u64, end: u64) -> Result<bool> {
        let mut at = start;
        let mut kicked = start;
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(self.buffer.len());
            let got = match pread(&from, &mut self.buffer[..want], at) {
                Ok(0) => return Ok(false),
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(e) => return Err(Error::io(Operation::Read, &(self.source)(), e)),
            };
            let mut done = 0;
            while done < got {
                match pwrite(&to, &self.buffer[done..got], at + done as u64) {
                    Ok(n) => done += n,
                    Err(Errno::INTR) => {}
                    Err(e) => return Err(Error::io(Operation::Write, &(self.target)(), e)),
                }
            }
            at += got as u64;
            if at - kicked >= STRIDE {
                // Has the kernel begin to write now instead of when all is synced: the disk works while the
                // next piece is read. Only advice, so its outcome does not matter.
                let _ = fadvise(&to, kicked, NonZeroU64::new(at - kicked), Advice::DontNeed);
                kicked = at;
            }
            self.advance(got as u64)?;
        }
        Ok(true)
    }
}
