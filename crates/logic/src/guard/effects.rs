//! What each step does to the disk, as a list of changes that each either happen or do not.
//!
//! The executor carries out this list and nothing else; the walk over all states carries out the same list on an
//! abstract disk, with a crash before, inside and after every entry. A `Build`, a `RunMigration` and a `Remove` are
//! the only ones with an inside.

use serde::{Deserialize, Serialize};

use super::boots::Seq;
use super::copies::{CopyRecord, Place};
use super::steps::Step;
use crate::host::DeploymentId;
use crate::version::Version;

/// A copy that changes its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Relocation {
    pub number: Seq,
    pub from: Place,
    pub to: Place,
}

/// Something that takes several changes. The journal holds it while it is under way, complete enough to be finished
/// or undone from it alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "operation")]
pub enum Operation {
    Backup {
        copy: CopyRecord,
        /// Where the backup goes that stood under the same name.
        make_room: Vec<Relocation>,
        /// An older generation that may go: its tree is brought up to date instead of copying everything again.
        recycle: Option<CopyRecord>,
    },
    /// Take the data out of the way, so that the workload starts with none.
    MoveAside { copy: CopyRecord },
    /// Put a copy in the data's place; what was there is moved aside.
    Restore { source: Seq, from: Place, incoming: Seq, displaced: Option<CopyRecord> },
    /// Remove a copy that retention lets go.
    Discard { number: Seq, place: Place },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Enter this boot (pre-run begun) in the record of boots.
    RecordBoot {
        seq: Seq,
    },
    /// Write the intent to the journal, synced.
    Begin(Operation),
    /// Empty the journal: the operation is over.
    End,
    /// Copy a tree completely, sync it, and check it. Where the target already holds an older copy, bring that up to
    /// date instead.
    Build {
        from: Place,
        to: Place,
    },
    /// Write the record that makes a copy exist.
    Commit(CopyRecord),
    /// The record of a copy now names this place.
    Relabel {
        number: Seq,
        place: Place,
    },
    /// Remove the record: the copy no longer exists, whatever is left of its tree.
    Forget {
        number: Seq,
    },
    /// One rename, synced; across file systems, a complete copy under the new name and then the removal of the old.
    /// Where the target exists, at most that removal is left to do.
    Move {
        from: Place,
        to: Place,
    },
    /// The two trees change places in one step; where there is no data, a rename.
    Exchange {
        incoming: Seq,
    },
    /// Remove a tree.
    Remove {
        place: Place,
    },
    /// Write `version.json`.
    StampAssumed {
        version: Version,
        deployment: DeploymentId,
    },
    StampMigrating {
        from: Version,
        to: Version,
        base: Seq,
        seq: Seq,
        deployment: DeploymentId,
    },
    RunMigration {
        from: Version,
        to: Version,
    },
    StampMigrated {
        version: Version,
        seq: Seq,
        deployment: DeploymentId,
    },
    /// The request for a restore now names this very copy.
    PinRequest {
        number: Seq,
    },
    ClearRequest,
    /// Record that the data fits (or does not): the workload may (not) start.
    FinishPreRun {
        seq: Seq,
        ready: bool,
    },
}

pub fn effects(step: &Step) -> Vec<Effect> {
    match step {
        Step::RecordBoot { seq } => vec![Effect::RecordBoot { seq: *seq }],
        Step::Recover { operation, finish } => ending(operation, *finish),
        Step::Sweep { places } => {
            places.iter().map(|place| Effect::Remove { place: place.clone() }).collect()
        }
        Step::Assume { version, deployment } => {
            vec![Effect::StampAssumed { version: version.clone(), deployment: deployment.clone() }]
        }
        Step::Operate(operation) => {
            let mut list = vec![Effect::Begin(operation.clone())];
            list.extend(until_decided(operation));
            list.extend(ending(operation, true));
            list
        }
        Step::Migrate { from, to, base, seq, deployment } => vec![
            Effect::StampMigrating {
                from: from.clone(),
                to: to.clone(),
                base: *base,
                seq: *seq,
                deployment: deployment.clone(),
            },
            Effect::RunMigration { from: from.clone(), to: to.clone() },
            Effect::StampMigrated { version: to.clone(), seq: *seq, deployment: deployment.clone() },
        ],
        Step::PinRequest { number } => vec![Effect::PinRequest { number: *number }],
        Step::ClearRequest => vec![Effect::ClearRequest],
    }
}

/// The changes before the operation is ended.
fn until_decided(operation: &Operation) -> Vec<Effect> {
    match operation {
        Operation::Backup { copy, recycle, .. } => {
            let staging = Place::Staging(copy.number);
            let mut list = Vec::new();
            if let Some(old) = recycle {
                list.push(Effect::Forget { number: old.number });
                list.push(Effect::Move { from: old.place.clone(), to: staging.clone() });
            }
            list.push(Effect::Build { from: Place::Data, to: staging });
            list.push(Effect::Commit(copy.clone()));
            list
        }
        Operation::MoveAside { copy } => vec![Effect::Commit(copy.clone())],
        Operation::Restore { from, incoming, displaced, .. } => {
            let mut list = vec![Effect::Build { from: from.clone(), to: Place::Incoming(*incoming) }];
            list.extend(displaced.clone().map(Effect::Commit));
            list.push(Effect::Exchange { incoming: *incoming });
            list
        }
        Operation::Discard { .. } => vec![],
    }
}

/// What ends an operation: forwards once it was decided, backwards before.
fn ending(operation: &Operation, finish: bool) -> Vec<Effect> {
    let mut list = Vec::new();
    match (operation, finish) {
        (Operation::Backup { copy, make_room, .. }, true) => {
            for Relocation { number, from, to } in make_room {
                list.push(Effect::Move { from: from.clone(), to: to.clone() });
                list.push(Effect::Relabel { number: *number, place: to.clone() });
            }
            list.push(Effect::Move { from: Place::Staging(copy.number), to: copy.place.clone() });
        }
        (Operation::Backup { copy, recycle, .. }, false) => {
            // The recycled generation was given up for this backup, whether or not it had been moved yet.
            if let Some(old) = recycle {
                list.push(Effect::Forget { number: old.number });
                list.push(Effect::Remove { place: old.place.clone() });
            }
            list.push(Effect::Remove { place: Place::Staging(copy.number) });
        }
        (Operation::MoveAside { copy }, true) => {
            list.push(Effect::Move { from: Place::Data, to: copy.place.clone() });
        }
        (Operation::MoveAside { copy }, false) => list.push(Effect::Forget { number: copy.number }),
        (Operation::Restore { incoming, displaced, .. }, true) => {
            if let Some(copy) = displaced {
                list.push(Effect::Move { from: Place::Incoming(*incoming), to: copy.place.clone() });
            }
        }
        (Operation::Restore { incoming, displaced, .. }, false) => {
            list.push(Effect::Remove { place: Place::Incoming(*incoming) });
            if let Some(copy) = displaced {
                list.push(Effect::Forget { number: copy.number });
            }
        }
        (Operation::Discard { number, place }, _) => {
            list.push(Effect::Forget { number: *number });
            list.push(Effect::Remove { place: place.clone() });
        }
    }
    list.push(Effect::End);
    list
}
