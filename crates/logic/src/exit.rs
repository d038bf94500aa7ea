//! The one table of exit codes. Every command of the binary ends with one of these.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Exit {
    /// Done, or nothing needed.
    Done = 0,
    /// Something that should not happen did.
    Unexpected = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// What was asked for does not exist, or nothing is in progress.
    NotFound = 3,
    /// Refused by a rule (version, policy, signature); the message names the rule and the way out.
    Refused = 4,
    /// The backup failed; nothing was changed.
    BackupFailed = 5,
    /// The restore failed; the data is as it was before.
    RestoreFailed = 6,
    /// The migration failed; its base backup is kept.
    MigrationFailed = 7,
    /// Metadata is damaged; the data is preserved.
    MetadataDamaged = 8,
    /// Rolled back; the old state runs.
    RolledBack = 9,
    /// The rollback failed; needs hands.
    RollbackFailed = 10,
    /// Interrupted; can be resumed.
    Interrupted = 11,
    /// Ran, and is not healthy.
    Unhealthy = 12,
    /// Timed out.
    TimedOut = 13,
    /// Busy; try again.
    TryAgain = 75,
}

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }
}
