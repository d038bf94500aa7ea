//! Mistakes made on purpose, around the shipped functions: a walk that does not find them proves nothing.
//!
//! L1 to L5 are the five smallest ways in which the document's tree, taken literally, loses data; the others are
//! rules of this implementation, each left out once.

use logic::guard::{
    CopyKind, Data, Effect, Observed, Operation, Place, PlannedStep, Recorded, Seq, Step, effects,
};

use super::cast::Cast;
use super::machine::Machine;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// L1: data is judged by the last boot instead of by its owner, and "start clean" really deletes.
    FailedBackupThenDelete,
    /// L2: nothing on the disk says that a migration is under way.
    HalfMigratedOverGood,
    /// L3: starting the workload again in the same boot takes the verdict back.
    RestartForgetsHealth,
    /// L4: what a restore displaces is dropped.
    NewerWorkOverwritten,
    /// L5: a restore copies straight into the data directory.
    HalfRestoredOverGood,
    /// A backup is committed before it is built.
    CommittedBeforeBuilt,
    /// Retention keeps only the newest copy.
    RetentionWithoutProtection,
    /// The tree of any older backup is taken for the next one.
    RecycledWithoutProtection,
    /// The tree that a restore was interrupted in is never taken away.
    RubbishLeftBehind,
}

impl Mistake {
    pub const ALL: [Self; 9] = [
        Self::FailedBackupThenDelete,
        Self::HalfMigratedOverGood,
        Self::RestartForgetsHealth,
        Self::NewerWorkOverwritten,
        Self::HalfRestoredOverGood,
        Self::CommittedBeforeBuilt,
        Self::RetentionWithoutProtection,
        Self::RecycledWithoutProtection,
        Self::RubbishLeftBehind,
    ];

    /// L1 to L5 lose data that a healthy boot vouched for, or run on half of it; the others break lesser rules first.
    pub fn breaks_the_promise(self) -> bool {
        matches!(
            self,
            Self::FailedBackupThenDelete
                | Self::HalfMigratedOverGood
                | Self::RestartForgetsHealth
                | Self::NewerWorkOverwritten
                | Self::HalfRestoredOverGood
        )
    }

    /// What `plan` gets to see.
    pub fn sees(self, seen: &mut Observed) {
        if self == Self::FailedBackupThenDelete
            && let Some(last) = seen.boots.iter().rev().find(|boot| boot.boot != seen.boot).cloned()
            && let Data::Present(Recorded::Known(record)) = &mut seen.data
        {
            record.owner.deployment = last.deployment;
            record.owner.seq = Some(last.seq);
        }
    }

    /// What becomes of the planned steps.
    pub fn plans(self, seen: &Observed, steps: &mut Vec<PlannedStep>) {
        match self {
            Self::NewerWorkOverwritten => {
                // The copy that is made before the exchange goes too: it is the same omission.
                let replaced = steps
                    .iter()
                    .any(|planned| matches!(planned.step, Step::Operate(Operation::Restore { .. })));
                steps.retain(|planned| {
                    !(replaced && matches!(planned.step, Step::Operate(Operation::Backup { .. })))
                });
                for planned in steps {
                    if let Step::Operate(Operation::Restore { displaced, .. }) = &mut planned.step {
                        *displaced = None;
                    }
                }
            }
            Self::RecycledWithoutProtection => {
                for planned in steps {
                    if let Step::Operate(Operation::Backup { recycle, make_room, .. }) = &mut planned.step {
                        let moved = |number: Seq| make_room.iter().any(|moved| moved.number == number);
                        *recycle = seen
                            .copies
                            .iter()
                            .find(|copy| copy.kind == CopyKind::Backup && !moved(copy.number))
                            .cloned();
                    }
                }
            }
            _ => {}
        }
    }

    /// What retention lets go.
    pub fn prunes(self, seen: &Observed, steps: &mut Vec<PlannedStep>) {
        if self == Self::RetentionWithoutProtection && seen.unfinished.is_none() {
            let newest = seen.copies.last_number();
            let branch = logic::guard::Branch::Retention;
            let discard = |number, place| PlannedStep {
                step: Step::Operate(Operation::Discard { number, place }),
                branch,
                reason: String::new(),
            };
            *steps = seen
                .copies
                .iter()
                .filter(|copy| copy.number != newest)
                .map(|copy| discard(copy.number, copy.place.clone()))
                .collect();
        }
    }

    /// What a step does to the disk.
    pub fn effects(self, step: &Step) -> Vec<Effect> {
        let mut list = effects(step);
        match (self, step) {
            (Self::FailedBackupThenDelete, Step::Operate(Operation::MoveAside { copy })) => {
                let rubbish = Place::Staging(copy.number);
                list = vec![
                    Effect::Move { from: Place::Data, to: rubbish.clone() },
                    Effect::Remove { place: rubbish },
                ];
            }
            (Self::HalfMigratedOverGood, Step::Migrate { .. }) => {
                list.retain(|effect| !matches!(effect, Effect::StampMigrating { .. }));
            }
            (
                Self::NewerWorkOverwritten,
                Step::Operate(Operation::Restore { incoming, .. })
                | Step::Recover { operation: Operation::Restore { incoming, .. }, finish: true },
            ) => {
                let place = Place::Incoming(*incoming);
                list.insert(list.len() - 1, Effect::Remove { place });
            }
            (Self::HalfRestoredOverGood, Step::Operate(Operation::Restore { from, .. })) => {
                list = vec![Effect::Build { from: from.clone(), to: Place::Data }];
            }
            (Self::CommittedBeforeBuilt, Step::Operate(Operation::Backup { .. })) => {
                let build = list.iter().position(|effect| matches!(effect, Effect::Build { .. }));
                if let Some(at) = build {
                    list.swap(at, at + 1);
                }
            }
            (
                Self::RubbishLeftBehind,
                Step::Recover { operation: Operation::Restore { .. }, finish: false },
            ) => list.retain(|effect| !matches!(effect, Effect::Remove { .. })),
            _ => {}
        }
        list
    }

    /// What starting the workload writes, besides what it should.
    pub fn starts(self, machine: &mut Machine, cast: &Cast) {
        if self == Self::RestartForgetsHealth
            && let Some(seq) = machine.seq(cast)
            && let Some(boot) = machine.boots.get_mut(seq)
        {
            boot.system = logic::guard::Health::Unknown;
            boot.vouched = false;
        }
    }
}
