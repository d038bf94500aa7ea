//! The catalogue of copies that guard has made: backups, their older generations, and data moved aside.

use serde::{Deserialize, Serialize};

use super::boots::{Boots, Seq};
use super::data::{DataRecord, Owner};
use crate::host::DeploymentId;
use crate::version::Version;

/// A directory that guard works with. How each becomes a path is the executor's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The workload's data directory.
    Data,
    /// A copy being built beside the data directory, on its file system.
    Incoming(Seq),
    /// A copy being built, or rubbish, in the backups directory.
    Staging(Seq),
    /// `backups/<deployment>`.
    Current(DeploymentId),
    /// `backups/.generations/<deployment>/<number>`.
    Generation(DeploymentId, Seq),
    /// `backups/last_healthy__<deployment>`.
    LastHealthy(DeploymentId),
    /// `backups/<name>`: data that was moved out of the way.
    Aside(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopyKind {
    Backup,
    Aside,
}

/// One committed copy, as its record beside it describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CopyRecord {
    pub number: Seq,
    pub kind: CopyKind,
    pub place: Place,
    /// Whose data it is.
    pub owner: Owner,
    /// Absent where the data carried none.
    #[serde(default)]
    pub version: Option<Version>,
    /// The boot in which the copy was made.
    pub made_in: Seq,
    /// The owner's boot was healthy when the copy was made.
    pub healthy: bool,
    /// Half-changed by a migration that did not end well. Kept for a look, never offered.
    #[serde(default)]
    pub tainted: bool,
    /// The same data is also kept as this backup.
    #[serde(default)]
    pub same_as: Option<Seq>,
    #[serde(default)]
    pub bytes: u64,
}

impl CopyRecord {
    /// Was this data vouched for by a healthy boot (then, or since)?
    pub fn is_vouched(&self, boots: &Boots) -> bool {
        !self.tainted
            && (self.healthy
                || self.owner.seq.and_then(|seq| boots.get(seq)).is_some_and(|boot| boot.vouched))
    }

    /// Newer data sorts later; of the same data, the later copy.
    pub fn age(&self) -> (Seq, Seq) {
        (self.owner.seq.unwrap_or(0), self.number)
    }
}

/// All committed copies, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Copies(Vec<CopyRecord>);

impl Copies {
    pub fn new(mut copies: Vec<CopyRecord>) -> Self {
        copies.sort_by_key(|copy| copy.number);
        Self(copies)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, CopyRecord> {
        self.0.iter()
    }

    pub fn get(&self, number: Seq) -> Option<&CopyRecord> {
        self.0.iter().find(|copy| copy.number == number)
    }

    pub fn get_mut(&mut self, number: Seq) -> Option<&mut CopyRecord> {
        self.0.iter_mut().find(|copy| copy.number == number)
    }

    pub fn add(&mut self, copy: CopyRecord) {
        self.0.push(copy);
        self.0.sort_by_key(|copy| copy.number);
    }

    pub fn forget(&mut self, number: Seq) {
        self.0.retain(|copy| copy.number != number);
    }

    pub fn at(&self, place: &Place) -> Option<&CopyRecord> {
        self.0.iter().find(|copy| copy.place == *place)
    }

    pub fn last_number(&self) -> Seq {
        self.0.last().map_or(0, |copy| copy.number)
    }

    pub fn backups_of<'a, 'd>(
        &'a self,
        deployment: &'d DeploymentId,
    ) -> impl Iterator<Item = &'a CopyRecord> + use<'a, 'd> {
        self.0
            .iter()
            .filter(move |copy| copy.kind == CopyKind::Backup && copy.owner.deployment == *deployment)
    }

    /// The newest backup of a deployment that a healthy boot vouched for.
    pub fn newest_healthy_of(&self, deployment: &DeploymentId, boots: &Boots) -> Option<&CopyRecord> {
        self.backups_of(deployment).filter(|copy| copy.is_vouched(boots)).max_by_key(|copy| copy.age())
    }

    pub fn newest_of(&self, deployment: &DeploymentId) -> Option<&CopyRecord> {
        self.backups_of(deployment).filter(|copy| !copy.tainted).max_by_key(|copy| copy.age())
    }

    /// The newest backup that holds exactly this data. It can be told without comparing: the owner's workload has not
    /// run since the copy was made. Data of an owner that guard does not watch may change unseen.
    pub fn kept_copy_of(&self, record: &DataRecord, boots: &Boots) -> Option<Seq> {
        let seq = record.owner.seq?;
        let ran = boots.get(seq).is_none_or(|boot| boot.ran);
        self.0
            .iter()
            .filter(|copy| copy.kind == CopyKind::Backup && !copy.tainted)
            .filter(|copy| copy.owner == record.owner && copy.version.as_ref() == Some(&record.version))
            .filter(|copy| copy.made_in > seq || !ran)
            .map(|copy| copy.number)
            .max()
    }

    pub fn vouched<'a>(&'a self, boots: &'a Boots) -> impl Iterator<Item = &'a CopyRecord> {
        self.0.iter().filter(move |copy| copy.is_vouched(boots))
    }
}
