//! The plan: what will be done, why, and whether the workload may start after it.

use std::fmt;

use serde::Serialize;

use super::boots::Seq;
use super::copies::Place;
use super::effects::Operation;
use crate::exit::Exit;
use crate::host::DeploymentId;
use crate::version::Version;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Step {
    /// Enter this boot in the record, before anything else.
    RecordBoot {
        seq: Seq,
    },
    /// Finish or undo what was interrupted.
    Recover {
        operation: Operation,
        finish: bool,
    },
    /// Remove half-built trees that nothing claims.
    Sweep {
        places: Vec<Place>,
    },
    /// Write the record of data that has none.
    Assume {
        version: Version,
        deployment: DeploymentId,
    },
    /// Something that takes several changes, under the journal.
    Operate(Operation),
    Migrate {
        from: Version,
        to: Version,
        base: Seq,
        seq: Seq,
        deployment: DeploymentId,
    },
    /// Settle which copy was asked for, before anything makes a newer one that the same words would name.
    PinRequest {
        number: Seq,
    },
    /// The restore that an administrator asked for is done.
    ClearRequest,
}

/// Where in the decision tree a step came from. The names are stable: they appear in the log and in `-o json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Branch {
    EveryBoot,
    Interrupted,
    AlreadyPrepared,
    FirstBoot,
    DataGone,
    NoRecordAssumed,
    ForeignData,
    DamagedRecord,
    Requested,
    MigrationBroken,
    OwnerUnjudged,
    OwnerHealthy,
    OwnerVouched,
    RollbackOnDemand,
    OwnerUnknownSame,
    StagedOverUnhealthy,
    RolledBackToHealthy,
    RolledBackToUnhealthy,
    RolledBackToUnknown,
    UnhealthyAgain,
    AlwaysUnhealthyFirst,
    AlwaysUnhealthyRetry,
    AlwaysUnhealthyLeftover,
    AlwaysUnhealthyOverUnhealthy,
    AlwaysUnhealthyOverUnknown,
    UnhealthyUntouched,
    VersionCheck,
    Retention,
}

/// The rule that keeps the workload from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    ProgramOlderThanData,
    TooManyMinorVersionsAhead,
    OtherMajorVersion,
    VersionBlockListed,
    ForeignData,
    MetadataDamaged,
    NoBackupToReturnTo,
    StagedOverUnhealthy,
    RequestedBackupMissing,
    CopyHalfMigrated,
    MigrationNeeded,
}

impl Rule {
    pub fn exit(self) -> Exit {
        match self {
            Self::MetadataDamaged => Exit::MetadataDamaged,
            _ => Exit::Refused,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Block {
    pub rule: Rule,
    pub why: String,
    /// The next command to type.
    pub way_out: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Outcome {
    /// The workload may start.
    Allow,
    Block(Block),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct PlannedStep {
    #[serde(flatten)]
    pub step: Step,
    pub branch: Branch,
    pub reason: String,
}

/// What `pre-run --dry-run` prints is exactly what `pre-run` carries out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Plan {
    /// This boot's number in the record.
    pub seq: Seq,
    /// The branch of the tree that decided about the data, with the reason in words: also when nothing is to be done.
    pub branch: Branch,
    pub reason: String,
    pub steps: Vec<PlannedStep>,
    pub outcome: Outcome,
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One spelling for people and programs: the serialized one.
        self.serialize(f)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
