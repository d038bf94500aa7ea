//! A directory for one image, which outlives no test run: it goes when dropped, and if the process was
//! killed first, the next one that uses this module removes it.
//!
//! The lock inside tells the living from the dead: it is held as long as the process runs, and put in
//! place already locked, so that no sweeper can find it free.

use super::mounting;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "holdfast-scratch-";
const MEMORY: &str = "/dev/shm";

#[derive(Debug)]
pub(super) struct ScratchDirectory {
    path: PathBuf,
    _lock: File,
}

impl ScratchDirectory {
    /// In memory if there is room for twice the size, else on disk.
    pub(super) fn new(size: u64) -> ScratchDirectory {
        let free = rustix::fs::statvfs(MEMORY).map_or(0, |room| room.f_bavail * room.f_frsize);
        let parent = if free / 2 >= size { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
        ScratchDirectory::in_either(&parent)
    }

    /// In the directory for temporary files: where reading with a cold cache means reading a disk.
    pub(super) fn on_disk() -> ScratchDirectory {
        ScratchDirectory::in_either(&std::env::temp_dir())
    }

    fn in_either(parent: &Path) -> ScratchDirectory {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| {
            sweep(Path::new(MEMORY));
            sweep(&std::env::temp_dir());
        });
        ScratchDirectory::below(parent).unwrap_or_else(|error| {
            panic!("cannot make a directory for a scratch file system in {}: {error}", parent.display())
        })
    }

    fn below(parent: &Path) -> std::io::Result<ScratchDirectory> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        fs::create_dir(path.join("mnt"))?;
        let lock = File::create(path.join("lock.new"))?;
        lock.lock()?;
        fs::rename(path.join("lock.new"), path.join("lock"))?;
        Ok(ScratchDirectory { path, _lock: lock })
    }

    pub(super) fn image(&self) -> PathBuf {
        self.path.join("image")
    }

    /// What the disk held when the power went, if that is not what the image holds.
    pub(super) fn kept_image(&self) -> PathBuf {
        self.path.join("image.kept")
    }

    pub(super) fn mount_point(&self) -> PathBuf {
        self.path.join("mnt")
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes what it knows by name only: a walk could enter a mount that refused to go.
fn remove(path: &Path) {
    for name in ["image", "image.kept", "lock.new", "lock"] {
        let _ = fs::remove_file(path.join(name));
    }
    let _ = fs::remove_dir(path.join("mnt"));
    let _ = fs::remove_dir(path);
}

fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let Ok(lock) = File::open(path.join("lock")) else {
            continue;
        };
        if lock.try_lock().is_ok() {
            mounting::unmount_at_any_price(&path.join("mnt"));
            remove(&path);
        }
    }
}
