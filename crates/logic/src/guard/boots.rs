//! The record of boots: which deployment ran when, and what was said of its health.
//!
//! A verdict belongs to one boot of one deployment. Boots are ordered by a counter that only grows; the wall clock
//! is kept for people and decides nothing.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::host::DeploymentId;

/// The number of a boot. Later boots have larger numbers; it is also the number of every copy made in between,
/// so that one counter orders all that guard knows.
pub type Seq = u64;

/// The kernel's name for a boot. Not unique by itself: a soft reboot keeps it and changes the deployment.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(Arc<str>);

impl BootId {
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    #[default]
    Unknown,
    Healthy,
    Unhealthy,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
        })
    }
}

/// How far `pre-run` came in a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreRun {
    /// It did not run, or is not known to have run.
    #[default]
    None,
    /// It began and has not ended.
    Begun,
    /// The data fits what is booted; the workload may run.
    Ready,
    /// It was blocked, or a step failed; the workload may not run.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Boot {
    pub seq: Seq,
    pub boot: BootId,
    pub deployment: DeploymentId,
    #[serde(default)]
    pub pre_run: PreRun,
    /// The workload was started in this boot, so the data may have changed.
    #[serde(default)]
    pub ran: bool,
    #[serde(default)]
    pub workload: Health,
    #[serde(default)]
    pub system: Health,
    /// The system was healthy at some moment of this boot while the workload ran. Never taken back: a later
    /// "unhealthy" changes what to do next, not that this data was once good.
    #[serde(default)]
    pub vouched: bool,
    /// Wall clock, for people.
    #[serde(default)]
    pub at: String,
}

/// All boots that are still of interest, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Boots(Vec<Boot>);

impl Boots {
    /// How many boots are kept for people to look at, besides those that decisions still need.
    pub const SHOWN: usize = 32;

    pub fn from_records(mut records: Vec<Boot>) -> Self {
        records.sort_by_key(|boot| boot.seq);
        records.dedup_by_key(|boot| boot.seq);
        Self(records)
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Boot> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn last_seq(&self) -> Seq {
        self.0.last().map_or(0, |boot| boot.seq)
    }

    pub fn get(&self, seq: Seq) -> Option<&Boot> {
        self.0.binary_search_by_key(&seq, |boot| boot.seq).ok().map(|at| &self.0[at])
    }

    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut Boot> {
        self.0.binary_search_by_key(&seq, |boot| boot.seq).ok().map(|at| &mut self.0[at])
    }

    /// The record of the boot under way, if it has been entered. The pair is the key, and it must be the latest: after a
    /// soft reboot to another deployment and back, the pair is the same and the boot is not.
    pub fn find(&self, boot: &BootId, deployment: &DeploymentId) -> Option<&Boot> {
        self.0.last().filter(|known| known.boot == *boot && known.deployment == *deployment)
    }

    /// The latest boot of a deployment, whether or not its workload was started.
    pub fn last_of(&self, deployment: &DeploymentId) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.deployment == *deployment)
    }

    /// The latest boot in which a deployment's workload was started.
    pub fn last_run_of(&self, deployment: &DeploymentId) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.ran && boot.deployment == *deployment)
    }

    /// The latest boot of another deployment in which the workload was started: what the document calls the
    /// earlier deployment.
    pub fn last_run_of_another(&self, deployment: &DeploymentId) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.ran && boot.deployment != *deployment)
    }

    /// The latest boot before `seq`.
    pub fn before(&self, seq: Seq) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.seq < seq)
    }

    pub fn last_vouched(&self) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.vouched)
    }

    pub fn last_vouched_of(&self, deployment: &DeploymentId) -> Option<&Boot> {
        self.0.iter().rev().find(|boot| boot.vouched && boot.deployment == *deployment)
    }

    pub fn any_ran(&self) -> bool {
        self.0.iter().any(|boot| boot.ran)
    }

    /// Enters the boot under way with this number, or leaves its record as it is where it has that number already (or
    /// a later one). Returns the number that it has.
    pub fn enter(&mut self, next: Seq, boot: &BootId, deployment: &DeploymentId, at: &str) -> Seq {
        if let Some(known) = self.find(boot, deployment).filter(|known| known.seq >= next) {
            return known.seq;
        }
        let seq = next.max(self.last_seq() + 1);
        self.0.push(Boot {
            seq,
            boot: boot.clone(),
            deployment: deployment.clone(),
            pre_run: PreRun::None,
            ran: false,
            workload: Health::Unknown,
            system: Health::Unknown,
            vouched: false,
            at: at.to_owned(),
        });
        seq
    }

    /// What the whole system was found to be. `Unknown` never takes a verdict back.
    pub fn judge_system(&mut self, seq: Seq, health: Health) {
        let Some(boot) = self.get_mut(seq) else { return };
        if health != Health::Unknown {
            boot.system = health;
        }
        boot.vouched |= boot.ran && health == Health::Healthy;
    }

    pub fn judge_workload(&mut self, seq: Seq, health: Health) {
        if let Some(boot) = self.get_mut(seq)
            && health != Health::Unknown
        {
            boot.workload = health;
        }
    }

    /// The workload is about to start. A verdict that this boot already has stays.
    pub fn started(&mut self, seq: Seq) {
        if let Some(boot) = self.get_mut(seq) {
            boot.ran = true;
        }
    }

    /// Forgets boots that nothing refers to any more: bounded growth. `needed` are numbers that data or copies name.
    pub fn trim(&mut self, needed: impl Fn(Seq) -> bool, shown: usize) {
        let keep_from = self.0.len().saturating_sub(shown);
        let deciding: Vec<Seq> = self
            .0
            .iter()
            .filter(|boot| {
                let of = &boot.deployment;
                let newest = [self.last_of(of), self.last_run_of(of), self.last_vouched_of(of)];
                newest.iter().flatten().any(|kept| kept.seq == boot.seq)
            })
            .map(|boot| boot.seq)
            .collect();
        let mut at = 0;
        self.0.retain(|boot| {
            at += 1;
            at > keep_from || needed(boot.seq) || deciding.binary_search(&boot.seq).is_ok()
        });
    }
}
