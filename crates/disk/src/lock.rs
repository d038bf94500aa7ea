//! One holder at a time, and a record of who it is for the message to the others.
//!
//! The lock is the kernel's and ends with its process; the record in the file is for people only and
//! must never be used to decide whether the lock is free.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::durable::read_limited;
use crate::error::{Error, Operation, Result};

const RECORD_LIMIT: u64 = 64 * 1024;
const COMMAND_LIMIT: usize = 1024;
/// How often the file may be replaced under us before we give up.
const ATTEMPTS: usize = 16;

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// When the lock was taken, in seconds since 1970 by the clock of then.
    pub since: u64,
    /// The command line of the holder.
    pub command: String,
}

/// Held until dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or says `None` at once when someone else holds it.
    pub fn try_acquire(path: &Path) -> Result<Option<Lock>> {
        for _ in 0..ATTEMPTS {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(|e| Error::io(Operation::Open, path, e))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => return Ok(None),
                Err(std::fs::TryLockError::Error(e)) => return Err(Error::io(Operation::Lock, path, e)),
            }
            // Someone may have removed or replaced the file between open and lock; a lock on a file that
            // no one else can open any more would exclude no one.
            let ours = file.metadata().map_err(|e| Error::io(Operation::Inspect, path, e))?;
            match std::fs::symlink_metadata(path) {
                Ok(there) if there.ino() == ours.ino() && there.dev() == ours.dev() => {}
                _ => continue,
            }
            let mut lock = Lock { file };
            // A full disk must not keep a rescue from running: the record is a courtesy.
            let _ = lock.record();
            return Ok(Some(lock));
        }
        Ok(None)
    }

    /// Whether someone holds the lock now. Whoever tries to take it at this very instant may be told so too: it is worth
    /// trying twice.
    pub fn is_held(path: &Path) -> Result<bool> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(Error::io(Operation::Open, path, e)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(e)) => Err(Error::io(Operation::Lock, path, e)),
        }
    }

    /// Keeps the lock with whatever this process becomes by `exec`, and with its children: it ends with the last of
    /// them.
    pub fn survive_exec(&self, path: &Path) -> Result<()> {
        rustix::io::fcntl_setfd(&self.file, rustix::io::FdFlags::empty())
            .map_err(|e| Error::io(Operation::Lock, path, e))
    }

    /// A descriptor that every process started from now on inherits: as long as one of them lives, the lock is held. To be
    /// dropped before anything is started that may outlive this process.
    pub fn share(&self, path: &Path) -> Result<OwnedFd> {
        rustix::io::dup(&self.file).map_err(|e| Error::io(Operation::Lock, path, e))
    }

    /// Who last said to hold the lock at `path`; meant for the message after `try_acquire` gave `None`.
    pub fn holder(path: &Path) -> Result<Option<Holder>> {
        let bytes = read_limited(path, RECORD_LIMIT)?.unwrap_or_default();
        Ok(serde_json::from_slice(&bytes).ok())
    }

    fn record(&mut self) -> std::io::Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        let mut command = without_secrets(&String::from_utf8_lossy(&command));
        command.truncate(command.floor_char_boundary(COMMAND_LIMIT));
        let record = serde_json::to_vec(&Holder { pid: std::process::id(), since, command })?;
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&record)
    }
}

/// For handing the lock on: it ends when every process that has this descriptor, or a copy of it, has closed it.
impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A command line for people, from its words with zeros between them: what follows a flag about secrets is left out.
fn without_secrets(words: &str) -> String {
    let mut shown: Vec<&str> = vec![];
    for word in words.trim_end_matches('\0').split('\0') {
        let follows = shown.last().is_some_and(|flag| flag.starts_with("--") && flag.contains("secret"));
        let holds = word.starts_with("--") && word.contains("secret") && word.contains('=');
        shown.push(if follows || holds { "(secret)" } else { word });
    }
    shown.join(" ")
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing releases the lock; the record goes before it so that no one reads a name that is gone.
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn a_command_line_is_shown_without_its_secrets() {
        let words = "holdfast\0upgrade\0shop\0--set-secret\0password=hush\0--set-secret=a=hush\0-q\0";
        assert_eq!(without_secrets(words), "holdfast upgrade shop --set-secret (secret) (secret) -q");
    }
}
