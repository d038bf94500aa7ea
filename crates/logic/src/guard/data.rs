//! What the data directory says of itself: `version.json`, its owner, and whether it is whole.

use serde::{Deserialize, Serialize};

use super::boots::Seq;
use crate::host::DeploymentId;
use crate::version::Version;

/// Who ran on the data last. Data is judged by the verdict on that boot, not by whichever boot came last.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    pub deployment: DeploymentId,
    /// Absent where something other than guard wrote the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DataRecord {
    pub version: Version,
    pub owner: Owner,
    pub state: DataState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DataState {
    Ok,
    /// A migration began and its end was not recorded, or it failed. The data is neither old nor new.
    Tainted {
        failed: bool,
        from: Version,
        to: Version,
        /// The backup that the migration started from; absent in records of the document's own spelling.
        base: Option<Seq>,
    },
}

/// The record of the data, as far as it could be read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recorded {
    Known(DataRecord),
    /// There is data, but no `version.json`.
    Missing,
    /// Neither `version.json` nor the second copy of it can be understood.
    Damaged(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Data {
    /// No data directory, or an empty one.
    Absent,
    Present(Recorded),
}

impl Data {
    pub fn record(&self) -> Option<&DataRecord> {
        match self {
            Self::Present(Recorded::Known(record)) => Some(record),
            _ => None,
        }
    }
}
