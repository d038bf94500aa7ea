//! Everything that a plan may depend on. If it is not in [`Observed`], it does not influence a decision.

use serde::{Deserialize, Serialize};

use super::boots::{BootId, Boots, Seq};
use super::copies::{Copies, Place};
use super::data::Data;
use super::effects::Operation;
use crate::host::{DeploymentId, Host};
use crate::version::Version;

/// What a new deployment does when it finds the data of one that was not healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StagedOverUnhealthy {
    /// Move the data aside and start with none.
    #[default]
    StartClean,
    /// Put the newest data in place that a healthy boot vouched for and that this version can read.
    RestoreLastHealthy,
    /// Take the data as it is.
    Keep,
    /// Do not start.
    Block,
}

/// Whose backups retention keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Those of deployments that the host lists.
    #[default]
    Deployments,
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// By how many minor versions a program may be ahead of the data.
    pub max_skew: u32,
    /// Versions of data that this program must not take over.
    pub blocked: Vec<Version>,
    /// The version of data that carries no record; also the name its backup is kept under.
    pub assumed: Version,
    pub staged_over_unhealthy: StagedOverUnhealthy,
    pub keep: Keep,
    /// At least this many healthy backups stay, over all deployments.
    pub min_healthy: usize,
    pub aside_max: usize,
    pub aside_max_bytes: u64,
}

/// What a restore was asked to bring back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wanted {
    /// The backup of whichever deployment is booted then.
    Booted,
    /// The newest healthy backup of this deployment, or else its newest.
    Deployment(DeploymentId),
    /// This very copy.
    Number(Seq),
}

/// "Restore on next boot", left by an administrator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RestoreRequest {
    pub wanted: Wanted,
    #[serde(default)]
    pub at: String,
}

/// An operation that the journal says was begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unfinished {
    pub operation: Operation,
    /// Its point of no return was passed: the record is committed (backup), the trees changed places (restore,
    /// move aside). From there on it is finished; before, it is undone.
    pub decided: bool,
}

/// How well the records in the backups directory could be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Metadata {
    Readable,
    /// The named file and its second copy are both beyond understanding.
    Damaged {
        file: String,
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Observed {
    pub host: Host,
    pub boot: BootId,
    /// The version of the workload's program on this deployment.
    pub program: Version,
    pub policy: Policy,
    pub metadata: Metadata,
    pub data: Data,
    pub boots: Boots,
    pub copies: Copies,
    pub request: Option<RestoreRequest>,
    pub unfinished: Option<Unfinished>,
    /// Half-built trees that no operation claims.
    pub leftovers: Vec<Place>,
    /// The highest number in any file name of guard's own, readable or not: numbers are never used twice.
    pub last_number: Seq,
    /// Names in the backups directory that guard did not make.
    pub foreign: Vec<String>,
}

impl Observed {
    /// The deployments that the host holds; nothing where the host did not say, which is not the same as "none".
    pub fn listed(&self) -> Option<&[DeploymentId]> {
        let listed = &self.host.deployments;
        listed.contains(&self.host.booted).then_some(listed.as_slice())
    }

    /// The first number that nothing has ever used, even where the record of boots was lost.
    pub fn next_number(&self) -> Seq {
        let owner = self.data.record().and_then(|record| record.owner.seq).unwrap_or(0);
        let copies =
            self.copies.iter().map(|copy| copy.number.max(copy.made_in).max(copy.owner.seq.unwrap_or(0)));
        let unfinished = self.unfinished.iter().map(|unfinished| match &unfinished.operation {
            Operation::Backup { copy, .. } | Operation::MoveAside { copy } => copy.number,
            Operation::Restore { incoming, .. } => *incoming,
            Operation::Discard { number, .. } => *number,
        });
        copies.chain(unfinished).chain([self.boots.last_seq(), owner, self.last_number]).max().unwrap_or(0)
            + 1
    }
}
