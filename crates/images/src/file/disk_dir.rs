//! One disk of a site: a directory with a uuid that goes with it wherever it is mounted.
//!
//! The uuid is checked before anything is touched: an empty mount point, or another disk in its place, must neither be
//! filled nor be taken for a disk whose images are gone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use disk::{Operation, durable};
use logic::images::{DiskId, ImageId, ImageName};
use serde::{Deserialize, Serialize};

use super::donors::Donors;
use super::error::FileError;

const CONFIG: &str = "holdfast-disk.cfg";
const CONFIG_LIMIT: u64 = 4096;
const IMAGES: &str = "backing-images";
/// What is being removed is renamed to this first, so that half of it is never taken for an image.
const REMOVED: &str = ".holdfast-removed-";
/// Directories that are looked at; a disk holds fewer images by far.
const SCAN_LIMIT: usize = 100_000;
const UUID_LENGTH: usize = 36;

#[derive(Debug, Serialize, Deserialize)]
struct Config {
    #[serde(rename = "diskUUID")]
    disk_uuid: String,
}

#[derive(Debug)]
pub struct DiskDir {
    path: PathBuf,
    id: DiskId,
    /// Which directory it was when it was opened: one that was mounted over it is another.
    identity: (u64, u64),
    pub(super) reserve: u64,
    /// Bytes of images that are being filled, as far as they are only counted.
    pub(super) promised: Mutex<u64>,
    /// What its images hold, while somebody needs it.
    pub(super) donors: Mutex<Option<Weak<Donors>>>,
}

/// An image's directory that was found on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub name: ImageName,
    pub id: ImageId,
    pub path: PathBuf,
}

impl DiskDir {
    /// Makes the directory a disk, unless it is one already, and says which.
    pub fn init(path: &Path) -> Result<DiskId, FileError> {
        match read_id(path) {
            Err(FileError::NotADisk { .. }) => {}
            other => return other,
        }
        fs::create_dir_all(path).map_err(|e| FileError::io(Operation::Create, path, e))?;
        let text = uuid::Uuid::new_v4().hyphenated().to_string();
        let id =
            DiskId::parse(&text).map_err(|source| FileError::DiskName { path: path.to_owned(), source })?;
        let config = Config { disk_uuid: text };
        let file = path.join(CONFIG);
        let bytes = serde_json::to_vec(&config)
            .map_err(|source| disk::Error::Encode { path: file.clone(), source })?;
        durable::write_durably(&file, &bytes)?;
        Ok(id)
    }

    /// Which disk is here, without touching it.
    pub fn id_at(path: &Path) -> Result<DiskId, FileError> {
        read_id(path)
    }

    /// `reserve`: bytes that stay free on it.
    pub fn open(path: &Path, expected: Option<&DiskId>, reserve: u64) -> Result<Arc<Self>, FileError> {
        let path = fs::canonicalize(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => FileError::NotADisk { path: path.to_owned() },
            _ => FileError::io(Operation::Open, path, e),
        })?;
        let id = read_id(&path)?;
        if let Some(expected) = expected
            && *expected != id
        {
            return Err(FileError::WrongDisk { path, expected: expected.clone(), found: id });
        }
        let identity = identity_of(&path)?;
        let dir = Self { path, id, identity, reserve, promised: Mutex::new(0), donors: Mutex::new(None) };
        dir.images_dir()?;
        dir.sweep();
        Ok(Arc::new(dir))
    }

    pub fn id(&self) -> &DiskId {
        &self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still the disk that was opened. Asked before anything is made, changed or removed.
    pub fn check(&self) -> Result<(), FileError> {
        let found = read_id(&self.path)?;
        if found != self.id {
            return Err(FileError::WrongDisk { path: self.path.clone(), expected: self.id.clone(), found });
        }
        if identity_of(&self.path)? != self.identity {
            return Err(FileError::ChangedByOther { path: self.path.clone() });
        }
        Ok(())
    }

    /// Where an image's files are, or will be.
    pub fn image_dir(&self, name: &ImageName, id: &ImageId) -> PathBuf {
        self.path.join(IMAGES).join(format!("{name}-{id}"))
    }

    /// The directories of images, by name. What is not named like one is left alone.
    pub fn scan(&self) -> Result<Vec<Found>, FileError> {
        self.check()?;
        let mut found = Vec::new();
        for (entry, name) in self.entries()? {
            let Some((name, id)) = split(&name) else { continue };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(Found { name, id, path: entry.path() });
            }
        }
        found.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(found)
    }

    /// Removes an image's directory with all that is in it. Nothing to remove is no error.
    pub fn remove(&self, name: &ImageName, id: &ImageId) -> Result<(), FileError> {
        self.check()?;
        let path = self.image_dir(name, id);
        let aside = self.path.join(IMAGES).join(format!("{REMOVED}{}", uuid::Uuid::new_v4().simple()));
        match durable::rename_durably(&path, &aside) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        disk::tree::remove(&aside)?;
        Ok(())
    }

    fn images_dir(&self) -> Result<PathBuf, FileError> {
        let path = self.path.join(IMAGES);
        match fs::create_dir(&path) {
            Ok(()) => durable::sync_dir(&self.path)?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => directory(&path)?,
            Err(e) => return Err(FileError::io(Operation::Create, &path, e)),
        }
        Ok(path)
    }

    fn entries(&self) -> Result<Vec<(fs::DirEntry, String)>, FileError> {
        let path = self.path.join(IMAGES);
        let failed = |e| FileError::io(Operation::List, &path, e);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)?.take(SCAN_LIMIT) {
            let entry = entry.map_err(failed)?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push((entry, name));
            }
        }
        Ok(entries)
    }

    /// What an interrupted removal left behind goes now. That it can't is no reason not to work.
    fn sweep(&self) {
        for (entry, name) in self.entries().unwrap_or_default() {
            if name.starts_with(REMOVED) {
                let _ = disk::tree::remove(&entry.path());
            }
        }
    }
}

/// Name and uuid of an image from the name of its directory.
fn split(name: &str) -> Option<(ImageName, ImageId)> {
    let at = name.len().checked_sub(UUID_LENGTH + 1)?;
    let (name, id) = (name.get(..at)?, name.get(at..)?.strip_prefix('-')?);
    Some((ImageName::parse(name).ok()?, ImageId::parse(id).ok()?))
}

fn identity_of(path: &Path) -> Result<(u64, u64), FileError> {
    let metadata = File::open(path)
        .and_then(|dir| dir.metadata())
        .map_err(|e| FileError::io(Operation::Inspect, path, e))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// That it is a directory, and not a link that leads somewhere else.
pub(super) fn directory(path: &Path) -> Result<(), FileError> {
    let metadata = fs::symlink_metadata(path).map_err(|e| FileError::io(Operation::Inspect, path, e))?;
    if metadata.is_dir() {
        return Ok(());
    }
    let why = if metadata.is_symlink() { "a link, which may lead off the disk" } else { "not a directory" };
    Err(FileError::Stranger { path: path.to_owned(), why })
}

fn read_id(path: &Path) -> Result<DiskId, FileError> {
    let file = path.join(CONFIG);
    let Some(bytes) = durable::read_limited(&file, CONFIG_LIMIT)? else {
        return Err(FileError::NotADisk { path: path.to_owned() });
    };
    let config: Config = serde_json::from_slice(&bytes)
        .map_err(|error| FileError::DiskConfig { path: file.clone(), why: error.to_string() })?;
    DiskId::parse(&config.disk_uuid).map_err(|source| FileError::DiskName { path: file, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_directory_is_taken_apart_from_its_end() {
        let id = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
        let (name, found) = split(&format!("debian-12-{id}")).unwrap();
        assert_eq!((name.as_str(), found.as_str()), ("debian-12", id));
        for bad in
            ["", "-", id, &format!("-{id}"), &format!("../x-{id}"), &format!("é{}", &id[1..]), "lost+found"]
        {
            assert!(split(bad).is_none(), "{bad}");
        }
    }
}
