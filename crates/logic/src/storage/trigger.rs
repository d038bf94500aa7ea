//! The trigger: from what is observed of one resource, the next thing to write. The executor carries it out, looks again
//! and asks again, until there is nothing left to write; whatever interrupts it, the next one goes on from what it finds.
//!
//! Architecture invariant: what may be stored is written down before anything else, so that no crash between two writes
//! forgets a version; and only a migration that was stamped for the very change in force narrows it again.

use std::collections::BTreeSet;

use super::migration::{Migration, Phase, Stamp};
use super::state::{State, StoredVersion, VersionHash};

/// All that is known of one resource at one time.
#[derive(Debug, Clone)]
pub struct Observed {
    pub offered: Offered,
    /// Versions that were the storage version for a while since the last look, as a watch saw them go by.
    pub passed_by: BTreeSet<VersionHash>,
    /// Changes may have been missed: a watch lost its history and the resource's definition changed more than once.
    pub missed: bool,
    /// Of the definition, where it is a custom resource.
    pub generation: Option<i64>,
    /// The StorageState with its uid; the status is absent when somebody was interrupted between making it and filling it.
    pub state: Option<(String, Option<State>)>,
    pub migrations: Vec<Migration>,
    /// When this look began, in seconds since 1970. A heartbeat of this age or younger is fresh.
    pub now: i64,
    /// A heartbeat older than this many seconds leaves room for changes that nobody saw.
    pub patience: i64,
}

/// What the API servers say of the resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Offered {
    Agreed(VersionHash),
    /// They are being exchanged for others, one after the other.
    Disputed(BTreeSet<VersionHash>),
    /// Its definition was deleted, and its objects with it. Not to be confused with a resource that is not served for
    /// the time being, whose objects are still stored and of which nothing new is known.
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// An empty StorageState.
    CreateState,
    /// The whole status, in one write.
    UpdateState(State),
    /// What it says can't be trusted any more; it is made anew.
    DeleteState,
    DeleteMigration(String),
    CreateMigration(Stamp),
}

/// The next write; none when everything is as it should be.
pub fn next(seen: &Observed) -> Option<Write> {
    if seen.offered == Offered::Removed {
        let gone = seen.migrations.first().map(|migration| Write::DeleteMigration(migration.name.clone()));
        return gone.or_else(|| seen.state.as_ref().map(|_| Write::DeleteState));
    }
    let Some((uid, status)) = &seen.state else { return Some(Write::CreateState) };
    let Some(state) = status else {
        return Some(seen.record(State::unknown(seen.current(), seen.now)));
    };
    if is_stale(state.heartbeat, seen) {
        return Some(Write::DeleteState);
    }
    if let Some(changed) = change(state, seen) {
        return Some(seen.record(changed));
    }
    let counts = |migration: &&Migration| {
        migration.stamp.as_ref().is_none_or(|stamp| stamp.state == *uid && stamp.change == state.changes)
    };
    if let Some(outdated) = seen.migrations.iter().find(|migration| !counts(migration)) {
        return Some(Write::DeleteMigration(outdated.name.clone()));
    }
    if let StoredVersion::Known(current) = &state.current
        && !state.is_settled()
    {
        let mut counting = seen.migrations.iter().filter(counts);
        if counting.any(|migration| migration.phase == Phase::Succeeded && wrote(migration, current)) {
            let persisted = vec![state.current.clone()];
            return Some(seen.record(State { persisted, ..state.clone() }));
        }
        // One that failed stays where it can be read; whoever mends the cause starts another.
        let under_way = |migration: &Migration| migration.stamp.is_some() || !migration.phase.is_over();
        if !seen.migrations.iter().any(under_way) {
            let stamp = Stamp { target: current.clone(), state: uid.clone(), change: state.changes };
            return Some(Write::CreateMigration(stamp));
        }
    }
    let newer = seen.generation.is_some() && seen.generation != state.generation;
    (newer || state.heartbeat < seen.now).then(|| seen.record(state.clone()))
}

fn wrote(migration: &Migration, version: &VersionHash) -> bool {
    migration.stamp.as_ref().is_some_and(|stamp| stamp.target == *version)
}

/// A heartbeat from the future says as little as one from long ago: a clock has jumped.
fn is_stale(heartbeat: i64, seen: &Observed) -> bool {
    heartbeat.abs_diff(seen.now) > seen.patience.unsigned_abs()
}

/// The state after what happened, if it makes earlier migrations worthless; in one write.
fn change(state: &State, seen: &Observed) -> Option<State> {
    let current = seen.current();
    let mut changed = state.clone();
    let passed_by = || seen.passed_by.iter().cloned().map(StoredVersion::from).filter(|it| *it != current);
    changed.may_hold(passed_by());
    if seen.missed {
        changed.may_hold([StoredVersion::Unknown]);
    }
    match &seen.offered {
        Offered::Agreed(_) if current == state.current => {}
        Offered::Agreed(hash) => changed.may_hold([hash.clone().into()]),
        Offered::Disputed(hashes) => changed.may_hold(hashes.iter().cloned().map(StoredVersion::from)),
        Offered::Removed => {}
    }
    // A version that went by and is held already was written once more: what was migrated before proves nothing.
    let returned = passed_by().next().is_some();
    let happened =
        changed.persisted != state.persisted || current != state.current || seen.missed || returned;
    happened.then(|| State { current, changes: state.changes + 1, ..changed })
}

impl Observed {
    fn record(&self, state: State) -> Write {
        let generation = self.generation.or(state.generation);
        Write::UpdateState(State { heartbeat: self.now, generation, ..state })
    }

    fn current(&self) -> StoredVersion {
        match &self.offered {
            Offered::Agreed(hash) => StoredVersion::Known(hash.clone()),
            Offered::Disputed(_) | Offered::Removed => StoredVersion::Unknown,
        }
    }
}
