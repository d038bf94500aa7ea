//! The ways through a transaction: forward, forward again after an interruption, and back.
//!
//! The appliance is stopped before the snapshot is taken: whatever the old release has acknowledged is then in the
//! snapshot, and going back loses nothing of it. All that takes time and can be done beside a running appliance is done
//! before (`Stage`, `Prepare`).
//!
//! Every step can be repeated: who does not know whether it was done, does it again.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::record::{Kind, Transaction};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// The new image, verified, takes its place beside the others.
    Stage,
    /// As much of the snapshot as can be made beside a running appliance.
    Prepare,
    PowerOff,
    Snapshot,
    /// Configuration and data in the form of the new release.
    Migrate,
    /// The new release is the current one.
    Reconfigure,
    /// Everything as in the snapshot of before.
    Revert,
    /// Everything as in the rollback point.
    Return,
    PowerOn,
    ProveReady,
    /// Once this is in the journal there is no way back but a rollback.
    Commit,
    /// The rollback point is the snapshot of before; of a rollback: there is none any more.
    KeepPoint,
    /// Snapshots and images that nothing leads to any more.
    Tidy,
}

impl Step {
    /// Not on disk, but in a machine that runs: not known any more after an interruption.
    pub fn is_about_power(self) -> bool {
        matches!(self, Self::PowerOff | Self::PowerOn | Self::ProveReady)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Prepare => "prepare",
            Self::PowerOff => "power-off",
            Self::Snapshot => "snapshot",
            Self::Migrate => "migrate",
            Self::Reconfigure => "reconfigure",
            Self::Revert => "revert",
            Self::Return => "return",
            Self::PowerOn => "power-on",
            Self::ProveReady => "prove-ready",
            Self::Commit => "commit",
            Self::KeepPoint => "keep-point",
            Self::Tidy => "tidy",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    Forward,
    /// Forward from the snapshot, after an interruption.
    Again,
    Back,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    Do(Step),
    /// At the end of its way, forward: the journal can be cleared.
    Committed,
    /// At the end of its way, back: the journal can be cleared.
    Undone,
}

impl Transaction {
    /// The steps of the way it is on.
    pub fn steps(&self) -> Vec<Step> {
        use Step::*;
        let powered = |steps: &[Step]| -> Vec<Step> {
            let on = |step: &Step| self.begin.was_on || !matches!(step, PowerOn | ProveReady);
            steps.iter().copied().filter(on).collect()
        };
        match (self.way, self.begin.kind) {
            (Way::Forward, Kind::Upgrade) => powered(&[
                Stage,
                Prepare,
                PowerOff,
                Snapshot,
                Migrate,
                Reconfigure,
                PowerOn,
                ProveReady,
                Commit,
                KeepPoint,
                Tidy,
            ]),
            // The image is brought anew, which cannot be done to one in force: back to the old release first.
            (Way::Again, Kind::Upgrade) => powered(&[
                PowerOff,
                Revert,
                Stage,
                Migrate,
                Reconfigure,
                PowerOn,
                ProveReady,
                Commit,
                KeepPoint,
                Tidy,
            ]),
            (Way::Forward, Kind::Rollback) => {
                powered(&[Prepare, PowerOff, Snapshot, Return, PowerOn, ProveReady, Commit, KeepPoint, Tidy])
            }
            (Way::Again, Kind::Rollback) => {
                powered(&[PowerOff, Return, PowerOn, ProveReady, Commit, KeepPoint, Tidy])
            }
            (Way::Back, _) => {
                let steps: &[Step] = if self.snapshot_taken {
                    &[PowerOff, Revert, PowerOn, ProveReady, Tidy]
                } else if self.power_touched {
                    // It may be on its way down: only what is down can be started.
                    &[PowerOff, PowerOn, ProveReady, Tidy]
                } else {
                    &[Tidy]
                };
                let mut steps = powered(steps);
                steps.retain(|step| *step != ProveReady || self.begin.was_ready);
                steps
            }
        }
    }
}

/// The first step of its way that is not done.
pub fn next(transaction: &Transaction) -> Next {
    let missing = transaction.steps().into_iter().find(|step| !transaction.done.contains(step));
    match (missing, transaction.way) {
        (Some(step), _) => Next::Do(step),
        (None, Way::Back) => Next::Undone,
        (None, _) => Next::Committed,
    }
}

/// What a step that failed means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Put all back.
    Undo,
    /// Even the way back failed: nothing more is tried before somebody has looked.
    Stuck,
    /// The release runs and is committed; what is left to tidy is left for the next time.
    Untidy,
}

pub fn trouble(transaction: &Transaction, failed: Step) -> Trouble {
    match (transaction.committed, transaction.way, failed) {
        (true, ..) | (_, Way::Back, Step::Tidy) => Trouble::Untidy,
        (_, Way::Back, _) => Trouble::Stuck,
        _ => Trouble::Undo,
    }
}

/// What the next process makes of a transaction whose own is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// On the way it is on.
    GoOn,
    Undo,
}

/// Forward only where the new release is in place whole, so that all that is left is to start it and see; where it is
/// committed; and back where it was on the way back.
pub fn recovery(transaction: &Transaction) -> Recovery {
    let in_place = match transaction.begin.kind {
        Kind::Upgrade => Step::Reconfigure,
        Kind::Rollback => Step::Return,
    };
    match transaction.way {
        Way::Back => Recovery::GoOn,
        _ if transaction.committed || transaction.done.contains(&in_place) => Recovery::GoOn,
        _ => Recovery::Undo,
    }
}
