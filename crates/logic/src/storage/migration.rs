//! What is known of a StorageVersionMigration: a request that every object of a resource be written back.

use super::state::VersionHash;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Migration {
    pub name: String,
    /// None until the migrator begins with a migration that a person made.
    pub stamp: Option<Stamp>,
    pub phase: Phase,
}

/// What a migration is worth: it counts for one change of one StorageState, and for the version that it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub target: VersionHash,
    /// The StorageState's uid: one that was made anew knows nothing of what was migrated before.
    pub state: String,
    /// [`State::changes`](super::State::changes) at the time.
    pub change: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl Phase {
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}
