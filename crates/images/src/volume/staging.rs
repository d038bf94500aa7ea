//! Where a volume is made before it is one. Whatever is not kept is removed, at the latest by whoever starts next.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use logic::images::ImageName;

use super::error::{Result, VolumeError, at};
use super::{OVERLAY, Record};

/// What is being made, or removed, begins with this; no name does.
const UNFINISHED: char = '.';

pub struct Staging {
    path: PathBuf,
    target: PathBuf,
    kept: bool,
    /// Held while somebody works here: a manager that takes over the disk must not sweep this away.
    _lock: File,
}

impl Staging {
    pub fn begin(volumes: &Path, name: &ImageName) -> Result<Self> {
        let path = path(volumes, name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(VolumeError::Busy { name: name.clone() });
            }
            made => made.map_err(at("create", &path))?,
        }
        let lock = File::open(&path).map_err(at("open", &path))?;
        lock.lock().map_err(at("lock", &path))?;
        Ok(Self { target: volumes.join(name.as_str()), path, kept: false, _lock: lock })
    }

    pub fn overlay(&self) -> PathBuf {
        self.path.join(OVERLAY)
    }

    /// What was made here becomes the volume.
    pub fn keep(mut self, record: &Record) -> Result<()> {
        let overlay = self.overlay();
        let file = File::open(&overlay).map_err(at("open", &overlay))?;
        file.sync_all().map_err(at("sync", &overlay))?;
        record.write(&self.path)?;
        disk::durable::rename_durably(&self.path, &self.target)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = disk::tree::remove(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "what was not finished could not be removed");
        }
    }
}

/// One rename takes a volume away; from then on it is unfinished business, also after a crash.
pub fn remove(volumes: &Path, name: &ImageName) -> Result<()> {
    let gone = path(volumes, name);
    if gone.try_exists().map_err(at("look at", &gone))? {
        return Err(VolumeError::Busy { name: name.clone() });
    }
    disk::durable::rename_durably(&volumes.join(name.as_str()), &gone)?;
    Ok(disk::tree::remove(&gone)?)
}

/// Removes what somebody left unfinished who is not there any more. Nobody was told that it exists.
pub fn sweep(name: &str, path: &Path) -> Result<()> {
    if !name.starts_with(UNFINISHED) {
        return Ok(());
    }
    let lock = File::open(path).map_err(at("open", path))?;
    match lock.try_lock() {
        Ok(()) => Ok(disk::tree::remove(path)?),
        Err(TryLockError::WouldBlock) => Ok(()),
        Err(TryLockError::Error(error)) => Err(at("lock", path)(error)),
    }
}

fn path(volumes: &Path, name: &ImageName) -> PathBuf {
    volumes.join(format!("{UNFINISHED}{name}"))
}
