//! The journal of a transaction, and what its records come to.

use serde::{Deserialize, Serialize};

use super::release::{Image, SnapshotId};
use super::way::{Step, Way};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Upgrade,
    /// One step back, to the rollback point.
    Rollback,
}

/// What one `--rollback` leads back to. Kept until the next upgrade has committed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Point {
    pub snapshot: SnapshotId,
    /// The release that the snapshot is of.
    pub image: Image,
    /// The release that took its place.
    pub left_for: Image,
}

/// All that must be known to finish or to undo it, whoever does so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Begin {
    pub kind: Kind,
    pub from: Image,
    pub to: Image,
    /// Where the new release came from, to bring it again.
    pub reference: String,
    /// Whether the appliance ran: it runs afterwards if it did, whatever becomes of the transaction.
    pub was_on: bool,
    /// Whether it was ready: what was not before need not be proved on the way back.
    pub was_ready: bool,
    /// The names of secrets that it was begun with new values for. Values are not for journals.
    pub secrets: Vec<String>,
    /// Of how it was before.
    pub snapshot: SnapshotId,
    /// The rollback point that there was: of a rollback, where it leads.
    pub point: Option<Point>,
}

/// One line of the journal. An effect has its `Doing` on disk before it begins, and its `Done` after it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    Begin(Box<Begin>),
    Doing(Step),
    Done(Step),
    Failed {
        step: Step,
        why: String,
    },
    /// From here on, back.
    Undo {
        why: String,
    },
    /// From here on, forward again, from the snapshot.
    Resume,
    /// Another process has taken over: whatever ran may not run any more.
    TakenOver,
}

/// What a journal comes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Transaction {
    pub begin: Begin,
    pub way: Way,
    /// Of this way.
    pub done: Vec<Step>,
    /// Begun, and not known to be done.
    pub doing: Option<Step>,
    /// Whether the snapshot is whole.
    pub snapshot_taken: bool,
    /// Whether the appliance was ever told to stop: before that, nothing about it has changed.
    pub power_touched: bool,
    pub committed: bool,
    /// Why it is being undone, or could not be.
    pub why: Option<String>,
    /// A step of the way back has failed since the last one that was done.
    pub stuck: bool,
}

impl Transaction {
    /// Nothing, where nothing is in progress.
    pub fn from_records(records: &[Record]) -> Option<Self> {
        let (first, rest) = records.split_first()?;
        let Record::Begin(begin) = first else { return None };
        let mut transaction = Self {
            begin: (**begin).clone(),
            way: Way::Forward,
            done: vec![],
            doing: None,
            snapshot_taken: false,
            power_touched: false,
            committed: false,
            why: None,
            stuck: false,
        };
        for record in rest {
            transaction.add(record);
        }
        Some(transaction)
    }

    pub fn add(&mut self, record: &Record) {
        match record {
            // A journal holds one transaction.
            Record::Begin(_) => {}
            Record::Doing(step) => {
                self.power_touched |= *step == Step::PowerOff;
                self.doing = Some(*step);
                self.stuck = false;
            }
            Record::Done(step) => {
                self.snapshot_taken |= *step == Step::Snapshot;
                self.committed |= *step == Step::Commit;
                self.doing = None;
                self.done.push(*step);
            }
            Record::Failed { step: _, why } => {
                self.doing = None;
                self.stuck = self.way == Way::Back;
                self.why = Some(why.clone());
            }
            Record::Undo { why } => {
                // What failed says more than that it is undone.
                self.why = Some(why.clone());
                self.turn(Way::Back);
            }
            Record::Resume => {
                self.why = None;
                self.turn(Way::Again);
            }
            // What is on disk stays; who runs may have ended with the machine. Once it is proved, that is no longer the
            // transaction's concern.
            Record::TakenOver => {
                self.doing = None;
                if !self.committed && !self.done.contains(&Step::ProveReady) {
                    self.done.retain(|step| !step.is_about_power());
                }
            }
        }
    }

    fn turn(&mut self, way: Way) {
        self.way = way;
        self.done.clear();
        self.doing = None;
        self.stuck = false;
    }
}
