//! What is known of a StorageVersionMigration: a request that every object of a resource be written back.

use std::time::Duration;

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

/// API servers show a custom resource's new storage version a moment before they use it.
const IN_USE_AFTER: Duration = Duration::from_secs(1);

/// How long to wait before the objects of a resource are listed. What is created or written in the old version after the
/// list was made is in no list, or in it as something that somebody has written since: so no list is made before the
/// version that has been shown for so long is in use. A list that is gone on with was made by somebody who waited.
pub fn list_in(custom: bool, goes_on: bool, shown_for: Duration) -> Duration {
    match custom && !goes_on {
        true => IN_USE_AFTER.saturating_sub(shown_for),
        false => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_listed_before_the_new_version_is_in_use_and_nobody_waits_for_longer() {
        let (now, half) = (Duration::ZERO, Duration::from_millis(500));
        assert_eq!(list_in(true, false, now), IN_USE_AFTER);
        assert_eq!(list_in(true, false, half), half);
        assert_eq!(list_in(true, false, IN_USE_AFTER * 2), now);
        assert_eq!(list_in(true, true, now), now);
        assert_eq!(list_in(false, false, now), now);
    }
}
