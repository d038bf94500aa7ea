//! Images of disks as sparse files: copying only what they hold, and filling a mounted one.

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek, statvfs, syncfs};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: usize = 64 << 10;

pub(super) fn size(image: &Path) -> u64 {
    fs::metadata(image)
        .map(|image| image.len())
        .unwrap_or_else(|error| panic!("{}: {error}", image.display()))
}

/// Copies an image, leaving out holes and zeros (mkfs.xfs writes 64 MiB of them for the log). The target
/// is a new file: a loop device that is still letting go of the old one is not disturbed.
pub(super) fn copy(from: &Path, to: &Path) {
    let copied = fs::remove_file(to)
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        .and_then(|()| copy_data(&File::open(from)?, &File::create_new(to)?));
    copied.unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", from.display(), to.display()));
}

fn copy_data(from: &File, to: &File) -> io::Result<()> {
    let size = from.metadata()?.len();
    to.set_len(size)?;
    let mut buffer = vec![0; BLOCK];
    let mut position = 0;
    loop {
        let start = match seek(from, SeekFrom::Data(position)) {
            Ok(start) => start,
            // No data behind this position.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(start))?.min(size);
        position = start;
        while position < end {
            // Up to the next multiple of the block, so that zeros are looked for on the same borders each time.
            let wanted = (BLOCK as u64 - position % BLOCK as u64).min(end - position) as usize;
            let got = from.read_at(&mut buffer[..wanted], position)?;
            if got == 0 {
                return Ok(());
            }
            copy_but_zeros(&buffer[..got], to, position)?;
            position += got as u64;
        }
    }
}

fn copy_but_zeros(block: &[u8], to: &File, position: u64) -> io::Result<()> {
    if block.iter().all(|byte| *byte == 0) { Ok(()) } else { to.write_all_at(block, position) }
}

/// Takes all space but `leave` bytes with one file. Asks for less and less, since a file system cannot
/// give everything that it counts as free, and syncs, so that nothing is only promised.
pub(super) fn fill(root: &Path, leave: u64) -> PathBuf {
    let path = root.join("fills-the-disk");
    let filled = (|| -> io::Result<()> {
        let file = File::options().create(true).write(true).truncate(false).open(&path)?;
        let mut size = file.metadata()?.len();
        let mut at_most = u64::MAX;
        loop {
            syncfs(&file)?;
            let room = statvfs(root)?;
            let granularity = room.f_frsize.max(4096);
            let excess = (room.f_bavail * room.f_frsize).saturating_sub(leave) / granularity * granularity;
            let wanted = excess.min(at_most);
            if wanted < granularity {
                return Ok(());
            }
            match fallocate(&file, FallocateFlags::empty(), size, wanted) {
                Ok(()) => size += wanted,
                Err(Errno::NOSPC) => at_most = wanted / 2 / granularity * granularity,
                Err(error) => return Err(error.into()),
            }
        }
    })();
    filled.unwrap_or_else(|error| panic!("cannot fill {}: {error}", root.display()));
    path
}
