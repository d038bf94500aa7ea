//! Rules broken on purpose: the walk must find each.

use logic::upgrade::{Kind, Next, Recovery, Step, Transaction, Way, next, recovery};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// As the document has it: what is written until the power is off is lost on the way back.
    SnapshotWhileItRuns,
    /// Whoever takes over believes that what ran still runs.
    PowerIsBelieved,
    CommitWithoutProof,
    BackWithoutProof,
    /// The rollback point of before is let go at the beginning.
    PointDroppedFirst,
    /// The snapshot is let go before the way back has used it.
    TidiedBeforeReverted,
    /// What was migrated in part is started.
    HalfMigratedGoesOn,
    /// Migrated again on top of what the interrupted migration left.
    ResumedWithoutReverting,
    /// Started although it was off.
    AlwaysStarted,
    /// All snapshots have one name.
    OneNameForSnapshots,
    /// Back to the snapshot although the old release has run since.
    RevertedTwice,
    /// The release is the current one before its data is.
    SwitchedBeforeMigrated,
}

impl Mistake {
    pub const ALL: [Self; 12] = [
        Self::SnapshotWhileItRuns,
        Self::PowerIsBelieved,
        Self::CommitWithoutProof,
        Self::BackWithoutProof,
        Self::PointDroppedFirst,
        Self::TidiedBeforeReverted,
        Self::HalfMigratedGoesOn,
        Self::ResumedWithoutReverting,
        Self::AlwaysStarted,
        Self::OneNameForSnapshots,
        Self::RevertedTwice,
        Self::SwitchedBeforeMigrated,
    ];
}

/// The steps as a mistaken program has them.
fn steps(transaction: &Transaction, mistake: Mistake) -> Vec<Step> {
    let mut steps = transaction.steps();
    let at = |steps: &[Step], step| steps.iter().position(|one| *one == step);
    match mistake {
        Mistake::SnapshotWhileItRuns => {
            if let (Some(off), Some(snapshot)) = (at(&steps, Step::PowerOff), at(&steps, Step::Snapshot)) {
                steps.swap(off, snapshot);
            }
        }
        Mistake::CommitWithoutProof if transaction.way != Way::Back => {
            steps.retain(|step| *step != Step::ProveReady);
        }
        Mistake::BackWithoutProof if transaction.way == Way::Back => {
            steps.retain(|step| *step != Step::ProveReady);
        }
        Mistake::PointDroppedFirst
            if transaction.way == Way::Forward && transaction.begin.kind == Kind::Upgrade =>
        {
            steps.retain(|step| *step != Step::Tidy);
            steps.insert(1, Step::Tidy);
        }
        Mistake::TidiedBeforeReverted if transaction.way == Way::Back => {
            steps.retain(|step| *step != Step::Tidy);
            steps.insert(0, Step::Tidy);
        }
        Mistake::ResumedWithoutReverting if transaction.way == Way::Again => {
            steps.retain(|step| *step != Step::Revert);
        }
        Mistake::AlwaysStarted if !transaction.begin.was_on => {
            let mut on = transaction.clone();
            on.begin.was_on = true;
            steps = on.steps();
        }
        Mistake::SwitchedBeforeMigrated => {
            if let (Some(migrate), Some(switch)) = (at(&steps, Step::Migrate), at(&steps, Step::Reconfigure))
            {
                steps.swap(migrate, switch);
            }
        }
        _ => {}
    }
    steps
}

pub fn next_of(transaction: &Transaction, mistake: Option<Mistake>) -> Next {
    let Some(mistake) = mistake else { return next(transaction) };
    match steps(transaction, mistake).into_iter().find(|step| !transaction.done.contains(step)) {
        Some(step) => Next::Do(step),
        None if transaction.way == Way::Back => Next::Undone,
        None => Next::Committed,
    }
}

pub fn recovery_of(transaction: &Transaction, mistake: Option<Mistake>) -> Recovery {
    let half = transaction.doing == Some(Step::Migrate) || transaction.done.contains(&Step::Migrate);
    match mistake {
        Some(Mistake::HalfMigratedGoesOn) if half => Recovery::GoOn,
        _ => recovery(transaction),
    }
}
