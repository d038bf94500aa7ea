//! Whose data: the two are migrated apart, because their lives are not the same length.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Configuration and stores of an appliance: one set, one version, written back by an upgrade.
    Appliance,
    /// The data of one workload: migrated in memory on every load, never written back.
    Workload,
}

impl Target {
    pub const ALL: [Self; 2] = [Self::Appliance, Self::Workload];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Appliance => "appliance",
            Self::Workload => "workload",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a target of migrations: expected appliance or workload")]
pub struct BadTarget(pub String);

impl FromStr for Target {
    type Err = BadTarget;
    fn from_str(text: &str) -> Result<Self, BadTarget> {
        Self::ALL
            .into_iter()
            .find(|target| target.as_str() == text)
            .ok_or_else(|| BadTarget(text.chars().take(80).collect()))
    }
}
