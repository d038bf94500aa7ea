//! Writing so that it is on disk, whole or not at all, when the call returns.
//!
//! This is the only place that knows the recipe (temporary sibling, sync, rename, sync the directory).
//! It must not know what the bytes mean.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::RESERVED_PREFIX;
use crate::error::{Error, Operation, Result};

/// Makes temporary names of one process differ.
static COUNTER: AtomicU32 = AtomicU32::new(0);

/// The directory that holds `path`; `.` for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        Some(_) => Path::new("."),
        None => path,
    }
}

fn temporary_sibling(path: &Path) -> PathBuf {
    let mut name = OsString::from(RESERVED_PREFIX);
    // The name of the target is left out: with it, a name of 255 bytes could not be written.
    name.push(format!("tmp-{}-{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
    parent(path).join(name)
}

/// Replaces or creates `path` with `bytes`: after a crash at any instant there is the old content or the
/// new, never a mixture. A temporary left behind by a crash has a reserved name; [`sweep_temporaries`]
/// removes it.
pub fn write_durably(path: &Path, bytes: &[u8]) -> Result<()> {
    write_durably_with(path, |file| file.write_all(bytes))
}

/// As [`write_durably`], for content that is produced piece by piece.
pub fn write_durably_with(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let temporary = temporary_sibling(path);
    let written = (|| {
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
            .map_err(|e| Error::io(Operation::Create, &temporary, e))?;
        fill(&mut file).map_err(|e| Error::io(Operation::Write, path, e))?;
        file.sync_all().map_err(|e| Error::io(Operation::Sync, path, e))?;
        fs::rename(&temporary, path).map_err(|e| Error::io(Operation::Rename, path, e))
    })();
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    sync_dir(parent(path))
}

/// Removes what interrupted [`write_durably`] calls left in `dir`. Only for the one who holds the lock
/// under which `dir` is written.
pub fn sweep_temporaries(dir: &Path) -> Result<u64> {
    let prefix = format!("{RESERVED_PREFIX}tmp-");
    let mut removed = 0;
    for entry in fs::read_dir(dir).map_err(|e| Error::io(Operation::List, dir, e))? {
        let entry = entry.map_err(|e| Error::io(Operation::List, dir, e))?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            fs::remove_file(entry.path()).map_err(|e| Error::io(Operation::Remove, &entry.path(), e))?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The whole file, `None` when there is none, an error when it is larger than `max_bytes`.
pub fn read_limited(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io(Operation::Open, path, e)),
    };
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(Operation::Read, path, e))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::TooLarge { path: path.to_owned(), limit: max_bytes });
    }
    Ok(Some(bytes))
}

/// Makes the names in the directory `path` durable.
pub fn sync_dir(path: &Path) -> Result<()> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(|e| Error::io(Operation::Sync, path, e))
}

/// Makes everything on the file system of `path` durable, with one call.
pub fn sync_fs(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|e| Error::io(Operation::Open, path, e))?;
    rustix::fs::syncfs(&file).map_err(|e| Error::io(Operation::SyncFileSystem, path, e))
}

/// Adds `line` and a newline to the file, and makes it durable. Where an earlier write was torn in the
/// middle of a line, the new one starts on a line of its own. `line` must not contain a newline.
pub fn append_durably(path: &Path, line: &[u8]) -> Result<()> {
    let open = || OpenOptions::new().read(true).append(true).open(path);
    let (mut file, created) = match open() {
        Ok(file) => (file, false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let file = OpenOptions::new().read(true).append(true).create(true).open(path);
            (file.map_err(|e| Error::io(Operation::Create, path, e))?, true)
        }
        Err(e) => return Err(Error::io(Operation::Open, path, e)),
    };
    let length = file.seek(SeekFrom::End(0)).map_err(|e| Error::io(Operation::Inspect, path, e))?;
    let mut bytes = Vec::with_capacity(line.len() + 2);
    if length > 0 {
        let mut last = [0_u8; 1];
        file.seek(SeekFrom::Start(length - 1))
            .and_then(|_| file.read_exact(&mut last))
            .map_err(|e| Error::io(Operation::Read, path, e))?;
        if last != *b"\n" {
            bytes.push(b'\n');
        }
    }
    bytes.extend_from_slice(line);
    bytes.push(b'\n');
    if let Err(e) = file.write_all(&bytes).and_then(|()| file.sync_data()) {
        // A half line that stays behind would only be noise; the next append copes with it anyway.
        let _ = file.set_len(length);
        return Err(Error::io(Operation::Write, path, e));
    }
    if created { sync_dir(parent(path)) } else { Ok(()) }
}

/// Renames `from` to `to`, which must not exist, and makes it durable.
///
/// Where the file system cannot refuse to replace by itself, existence is checked first; the gap between
/// check and rename is then covered by the caller's lock only.
pub fn rename_durably(from: &Path, to: &Path) -> Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Error::Exists { path: to.to_owned() }),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            if fs::symlink_metadata(to).is_ok() {
                return Err(Error::Exists { path: to.to_owned() });
            }
            fs::rename(from, to).map_err(|e| Error::io(Operation::Rename, from, e))?;
        }
        Err(e) => return Err(Error::io(Operation::Rename, from, e)),
    }
    sync_parents(from, to)
}

/// Exchanges `a` and `b` in one step and makes it durable. Both must exist, on one file system.
pub fn exchange_durably(a: &Path, b: &Path) -> Result<()> {
    renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).map_err(|e| Error::io(Operation::Exchange, a, e))?;
    sync_parents(a, b)
}

/// The parent that gained a name first: were only one synced, a name may then be seen twice, never lost.
fn sync_parents(from: &Path, to: &Path) -> Result<()> {
    let (old, new) = (parent(from), parent(to));
    sync_dir(new)?;
    if old == new { Ok(()) } else { sync_dir(old) }
}
