//! Where a supervisor keeps what others read: its lock, its status, the log.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use disk::Operation;

use super::error::Result;

/// Of an appliance or of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    dir: PathBuf,
}

impl Place {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// What is supervised: the directory that a supervisor is given.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn run(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn log(&self) -> PathBuf {
        self.run().join("log")
    }

    pub(super) fn older_log(&self) -> PathBuf {
        self.run().join("log.1")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.run().join("supervisor.lock")
    }

    /// Held by whoever starts or stops it.
    pub(super) fn power_lock(&self) -> PathBuf {
        self.run().join("power.lock")
    }

    pub(super) fn status(&self) -> PathBuf {
        self.run().join("status.json")
    }

    pub(super) fn notify_socket(&self) -> PathBuf {
        self.run().join("notify")
    }

    /// Whether anything of it runs. Looks without taking the lock, so as to be in nobody's way for long.
    pub(super) fn is_held(&self) -> Result<bool> {
        let path = self.lock();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(disk::Error::io(Operation::Open, &path, error).into()),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(disk::Error::io(Operation::Lock, &path, error).into()),
        }
    }
}
