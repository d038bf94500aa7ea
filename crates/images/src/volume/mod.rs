//! Volumes of one disk: each a qcow2 overlay on an image of the same disk, in `<disk>/volumes/<name>/`.
//!
//! An overlay names its image by a path relative to itself, so that a disk can be mounted elsewhere. The image's format is
//! always said and never guessed: a guest that writes a qcow2 header into a raw disk would otherwise choose it.
//!
//! Here are the files alone. Which volumes there are to be, and that an image is not removed under one, is decided elsewhere.

mod error;
mod qemu;
mod record;
mod restore;
mod staging;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use logic::images::{Format, ImageId, ImageName};

pub use self::error::{Damaged, VolumeError};
pub use self::record::Record;
pub use self::restore::Restore;

use self::error::{Result, at};
use self::staging::Staging;

const DIRECTORY: &str = "volumes";
const OVERLAY: &str = "volume.qcow2";

/// The image that a volume stands on, as it lies on this disk.
#[derive(Debug, Clone)]
pub struct Base {
    pub name: ImageName,
    pub uuid: ImageId,
    pub format: Format,
    /// Of the disk in it: of a raw image, its length.
    pub virtual_size: u64,
}

impl Base {
    /// From a volume's directory.
    fn path(&self) -> String {
        format!("../../backing-images/{}-{}/backing", self.name, self.uuid)
    }
}

#[derive(Debug, Clone)]
pub struct Volumes {
    directory: PathBuf,
}

/// A volume as it is found on the disk.
#[derive(Debug, Clone)]
pub struct Found {
    pub record: Record,
    pub path: PathBuf,
    pub real_size: u64,
    /// What is wrong with it, if something is.
    pub trouble: Option<String>,
}

impl Volumes {
    /// Takes up what is there, and removes what was left unfinished.
    pub fn open(disk: &Path) -> Result<Self> {
        let directory = disk.join(DIRECTORY);
        fs::create_dir_all(&directory).map_err(at("create", &directory))?;
        let volumes = Self { directory };
        for (name, path) in volumes.entries()? {
            staging::sweep(&name, &path)?;
        }
        Ok(volumes)
    }

    /// An empty overlay, at least as large as its image. One that is there already and stands on the same image is that volume.
    pub fn create(&self, name: &ImageName, base: &Base, size: Option<u64>) -> Result<Record> {
        if let Some(there) = self.there(name, base)? {
            return Ok(there);
        }
        let record = Record::new(name, base, sized(name, base, size)?);
        let staging = Staging::begin(&self.directory, name)?;
        qemu::create(&staging.overlay(), &base.path(), base.format, record.virtual_size)?;
        staging.keep(&record)?;
        Ok(record)
    }

    /// A volume from an overlay's bytes: write them, then finish. Without that, nothing stays.
    pub fn restore(&self, name: &ImageName, base: &Base) -> Result<Restore> {
        if self.there(name, base)?.is_some() {
            return Err(VolumeError::Exists { name: name.clone() });
        }
        Restore::begin(Staging::begin(&self.directory, name)?, name, base)
    }

    /// The overlay's bytes. They are no backup unless [`Self::unchanged`] says so at the end.
    pub fn read(&self, name: &ImageName) -> Result<(File, Stamp)> {
        let path = self.overlay(name)?;
        qemu::not_in_use(name, &path)?;
        let file = File::open(&path).map_err(at("open", &path))?;
        let stamp = Stamp::of(&file).map_err(at("look at", &path))?;
        Ok((file, stamp))
    }

    /// That nobody wrote to it while it was read.
    pub fn unchanged(&self, name: &ImageName, file: &File, stamp: &Stamp) -> Result<()> {
        let path = self.overlay(name)?;
        qemu::not_in_use(name, &path)?;
        match Stamp::of(file).map_err(at("look at", &path))? == *stamp {
            true => Ok(()),
            false => Err(VolumeError::Changed { name: name.clone() }),
        }
    }

    /// What is not there is removed.
    pub fn delete(&self, name: &ImageName) -> Result<()> {
        let path = self.directory.join(name.as_str());
        if !path.try_exists().map_err(at("look at", &path))? {
            return Ok(());
        }
        let overlay = path.join(OVERLAY);
        if overlay.try_exists().map_err(at("look at", &overlay))? {
            match qemu::not_in_use(name, &overlay) {
                // Damaged as it is, it can be removed: whoever had it open would hold a lock on it.
                Err(VolumeError::Qemu { why, .. }) => {
                    tracing::warn!(volume = %name, cause = why, "an overlay that can't be read is removed");
                }
                used => used?,
            }
        }
        staging::remove(&self.directory, name)
    }

    /// All volumes, and those that don't tell what they are.
    pub fn list(&self) -> Result<(Vec<Found>, Vec<Damaged>)> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for (name, path) in self.entries()? {
            let Ok(name) = ImageName::parse(&name) else { continue };
            match Record::read(&path, &name) {
                Ok(record) => found.extend(record.map(|record| look(record, &path))),
                Err(VolumeError::Record(record)) => damaged.push(record),
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|a, b| a.record.name.cmp(&b.record.name));
        damaged.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((found, damaged))
    }

    pub fn get(&self, name: &ImageName) -> Result<Found> {
        let path = self.directory.join(name.as_str());
        let record = Record::read(&path, name)?.ok_or_else(|| VolumeError::Missing { name: name.clone() })?;
        Ok(look(record, &path))
    }

    /// Where a volume's overlay is.
    fn overlay(&self, name: &ImageName) -> Result<PathBuf> {
        self.get(name).map(|found| found.path)
    }

    /// The volume, if it is there and on this image.
    fn there(&self, name: &ImageName, base: &Base) -> Result<Option<Record>> {
        match Record::read(&self.directory.join(name.as_str()), name)? {
            Some(record) if record.image == base.name && record.image_uuid == base.uuid => Ok(Some(record)),
            Some(record) => Err(VolumeError::OnAnother { name: name.clone(), image: record.image }),
            None => Ok(None),
        }
    }

    fn entries(&self) -> Result<Vec<(String, PathBuf)>> {
        let unreadable = at("read", &self.directory);
        let entries = fs::read_dir(&self.directory).map_err(&unreadable)?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(&unreadable)?;
            found.extend(entry.file_name().to_str().map(|name| (name.to_owned(), entry.path())));
        }
        Ok(found)
    }
}

fn look(record: Record, directory: &Path) -> Found {
    use std::os::unix::fs::MetadataExt;
    let path = directory.join(OVERLAY);
    let base = directory.join(record.base().path());
    let (real_size, trouble) = match (fs::metadata(&path), base.try_exists()) {
        (Err(error), _) => (0, Some(format!("can't look at {}: {error}", path.display()))),
        (Ok(found), Ok(true)) => (found.blocks() * 512, None),
        (Ok(found), _) => {
            (found.blocks() * 512, Some(format!("its image {} is not on this disk", record.image)))
        }
    };
    Found { record, path, real_size, trouble }
}

fn sized(name: &ImageName, base: &Base, size: Option<u64>) -> Result<u64> {
    match size {
        Some(size) if size < base.virtual_size => {
            Err(VolumeError::TooSmall { name: name.clone(), size, least: base.virtual_size })
        }
        size => Ok(size.unwrap_or(base.virtual_size)),
    }
}

/// Tells whether a file was written to between two looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub size: u64,
    modified: (i64, i64),
    inode: u64,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata()?;
        Ok(Self { size: found.len(), modified: (found.mtime(), found.mtime_nsec()), inode: found.ino() })
    }
}
