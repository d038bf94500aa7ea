//! The data file of `holdfast migrate`, its lock, and the directory that migrations work in.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use ::migrate::Document;
use disk::Lock;
use disk::durable::{read_limited, write_durably_with};
use logic::exit::Exit;

use crate::failure::{Failure, Result};

/// More than any configuration, less than what would hurt.
const MAX_DATA: u64 = 256 << 20;

pub struct DataFile {
    path: PathBuf,
    pub document: Document,
}

impl DataFile {
    pub fn read(path: &Path) -> Result<Self> {
        let readable = || format!("see that {} can be read", path.display());
        let bytes = read_limited(path, MAX_DATA)
            .map_err(|error| Failure::new(Exit::Unexpected, &error, readable()))?
            .ok_or_else(|| Failure {
                exit: Exit::NotFound,
                error: format!("there is no file {}", path.display()),
                causes: vec![],
                hint: "name the file with the data; docs/guides/migrations.md shows one".to_owned(),
            })?;
        let document = Document::parse(&bytes).map_err(|error| {
            let mut failure = Failure::new(
                Exit::MetadataDamaged,
                &error,
                "mend the document; docs/guides/migrations.md shows one",
            );
            failure.causes.insert(0, failure.error);
            failure.error = format!("{} can't be understood", path.display());
            failure
        })?;
        Ok(Self { path: path.to_owned(), document })
    }

    /// Replaces the file in one step. It may hold secrets: owner and mode are those of the old one before anything is
    /// in it.
    pub fn write(&self) -> Result<()> {
        let failed = |error: &dyn std::error::Error| {
            Failure::new(Exit::MigrationFailed, error, "see whether the disk is full")
        };
        let old = fs::metadata(&self.path).map_err(|error| failed(&error))?;
        write_durably_with(&self.path, |file| {
            file.set_permissions(old.permissions())?;
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&*file, Some(old.uid()), Some(old.gid()))?;
            }
            file.write_all(self.document.to_json().as_bytes())
        })
        .map_err(|error| failed(&error))
    }
}

/// One `migrate run` per file at a time.
pub fn lock(data: &Path) -> Result<Lock> {
    if !data.exists() {
        // Read next, with the right words; a lock beside nothing would only be litter.
        DataFile::read(data)?;
    }
    let path = beside(data, "lock");
    let lock = Lock::try_acquire(&path)
        .map_err(|error| Failure::new(Exit::Unexpected, &error, "see that its directory can be written"))?;
    lock.ok_or_else(|| Failure {
        exit: Exit::TryAgain,
        error: format!("{} is being migrated", data.display()),
        causes: match Lock::holder(&path) {
            Ok(Some(holder)) => vec![format!("by process {}: {}", holder.pid, holder.command)],
            _ => vec![],
        },
        hint: "try again when it is done".to_owned(),
    })
}

/// `.holdfast-<file>.<what>`, in the same directory.
fn beside(data: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(disk::RESERVED_PREFIX);
    name.push(data.file_name().unwrap_or_default());
    name.push(format!(".{what}"));
    data.with_file_name(name)
}

/// A directory for migrations to work in, removed at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    /// On the file system of the data, which is likely that of the stores. The lock is held: what an interrupted run
    /// left there is swept away.
    pub fn beside(data: &Path) -> Self {
        Self(beside(data, "work"))
    }

    /// For a plan, which needs no right to write where the data is. Values may be in it: it is private.
    pub fn temporary() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("holdfast-plan-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            Failure::new(Exit::Unexpected, &error, format!("see that {} can be written", path.display()))
        })?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
