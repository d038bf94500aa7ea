//! Everything that can go wrong in guard, each with its exit code and the way out.

use std::path::PathBuf;

use logic::exit::Exit;
use logic::guard::{Block, NotReady};

use crate::host;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was being done to the data when it failed: it decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Backup,
    MoveAside,
    Restore,
    Discard,
    Migrate,
    /// Reading and writing guard's own records.
    Records,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", doing_failed(*.doing))]
    Failed { doing: Doing, source: disk::Error },
    #[error("not enough room: {need} bytes and {inodes} files are to be written below {}, {free} bytes are free", .path.display())]
    NoRoom { doing: Doing, path: PathBuf, need: u64, inodes: u64, free: u64 },
    #[error("{} is in the way: guard did not make it", .path.display())]
    Occupied { path: PathBuf },
    #[error("copy {number} is not what it was when it was made: {what}")]
    CopyDamaged { number: u64, what: String },
    #[error("the migration from {from} to {to} failed: {why}")]
    Migration { from: String, to: String, why: String },
    #[error("{}", .0.why)]
    Blocked(Block),
    #[error("another holdfast is at work here ({holder})")]
    Locked { holder: String },
    #[error("the workload is running ({holder})")]
    WorkloadRuns { holder: String },
    #[error("the workload may not start: {0}")]
    NotReady(NotReady),
    #[error("{what}")]
    NotFound { what: String, hint: String },
    #[error("{what}")]
    Refused { what: String, hint: String },
    #[error("can't start {program}")]
    Exec { program: String, source: std::io::Error },
    #[error("can't tell which deployment is booted")]
    Host(#[from] host::Error),
    #[error("{file} can't be understood: {why}")]
    Damaged { file: String, why: String },
    #[error("interrupted")]
    Interrupted,
}

fn doing_failed(doing: Doing) -> &'static str {
    match doing {
        Doing::Backup => "the backup failed; nothing was changed",
        Doing::MoveAside => "the data could not be moved aside; nothing was changed",
        Doing::Restore => "the restore failed; the data is as it was before",
        Doing::Discard => "a copy that is no longer needed could not be removed",
        Doing::Migrate => "the migration could not be carried out; its base backup is kept",
        Doing::Records => "guard's own records could not be read or written; the data was not touched",
    }
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Failed { source, .. } if source.is_cancelled() => Exit::Interrupted,
            Self::Failed { doing, .. } | Self::NoRoom { doing, .. } => match doing {
                Doing::Backup | Doing::MoveAside => Exit::BackupFailed,
                Doing::Restore => Exit::RestoreFailed,
                Doing::Migrate => Exit::MigrationFailed,
                Doing::Discard => Exit::Unexpected,
                Doing::Records => Exit::BackupFailed,
            },
            Self::Occupied { .. } => Exit::BackupFailed,
            Self::CopyDamaged { .. } => Exit::RestoreFailed,
            Self::Migration { .. } => Exit::MigrationFailed,
            Self::Blocked(block) => block.rule.exit(),
            Self::Locked { .. } | Self::WorkloadRuns { .. } => Exit::TryAgain,
            Self::NotReady(_) | Self::Refused { .. } => Exit::Refused,
            Self::NotFound { .. } => Exit::NotFound,
            Self::Exec { .. } => Exit::Unexpected,
            Self::Host(host::Error::Run { source: program::RunError::TimedOut { .. }, .. }) => Exit::TimedOut,
            Self::Host(_) => Exit::Unexpected,
            Self::Damaged { .. } => Exit::MetadataDamaged,
            Self::Interrupted => Exit::Interrupted,
        }
    }

    /// The next thing to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Failed { doing, source } => failed_hint(*doing, source),
            Self::NoRoom { path, .. } => format!(
                "free some space on the file system of {}: `holdfast guard backups list` shows what guard keeps \
                 there, `holdfast guard backups prune` removes what is no longer needed",
                path.display()
            ),
            Self::Occupied { path } => format!(
                "move {} away, or let guard take it over: `holdfast guard backups adopt {}`",
                path.display(),
                path.file_name().unwrap_or_default().to_string_lossy()
            ),
            Self::CopyDamaged { number, .. } => format!(
                "`holdfast guard backups verify {number}` says what is wrong, `holdfast guard backups list` shows \
                 what else there is"
            ),
            Self::Migration { .. } => "the next boot returns to the base backup by itself and tries again; \
                                       `holdfast guard history` shows what the migration printed"
                .to_owned(),
            Self::Blocked(block) => block.way_out.clone(),
            Self::Locked { .. } => "wait until it is done and try again".to_owned(),
            Self::WorkloadRuns { .. } => "stop the workload first".to_owned(),
            Self::NotReady(_) => {
                "run `holdfast guard pre-run` (`systemctl restart holdfast-guard-pre-run.service`): it \
                                  mends that, or says what does"
                    .to_owned()
            }
            Self::NotFound { hint, .. } | Self::Refused { hint, .. } => hint.clone(),
            Self::Exec { .. } => "check the program's name and that it is executable".to_owned(),
            Self::Host(error) => error.hint(),
            Self::Damaged { file, .. } => format!("repair {file} or move it away"),
            Self::Interrupted => "run the same command again: it goes on where it stopped".to_owned(),
        }
    }
}

fn failed_hint(doing: Doing, source: &disk::Error) -> String {
    let place = source.path().map(|path| format!(" ({})", path.display())).unwrap_or_default();
    if source.is_cancelled() {
        "run the same command again: it undoes what was half done and starts over".to_owned()
    } else if source.is_out_of_space() {
        format!("the disk is full{place}: free some space, then run `holdfast guard pre-run` again or reboot")
    } else if source.is_read_only() {
        format!("the file system is read-only{place}: mount it read-write and try again")
    } else if source.is_denied() {
        format!("not permitted{place}: check the owner, the mode and `lsattr` (a directory may be immutable)")
    } else {
        match doing {
            Doing::Restore => {
                "see the cause above; `holdfast guard backups list` shows what else there is".to_owned()
            }
            _ => "see the cause above, mend it, then run `holdfast guard pre-run` again or reboot".to_owned(),
        }
    }
}

/// Says what was being done when the disk refused.
pub(crate) trait While<T> {
    fn during(self, doing: Doing) -> Result<T>;
}

impl<T> While<T> for Result<T, disk::Error> {
    fn during(self, doing: Doing) -> Result<T> {
        self.map_err(|source| Error::Failed { doing, source })
    }
}
