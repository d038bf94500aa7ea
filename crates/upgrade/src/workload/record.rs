//! `workloads/NAME/record.json`.

use std::path::Path;

use disk::durable::{read_limited, write_durably};
use logic::migrate::Applied;
use logic::upgrade::{ApplianceName, Image};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Error;

pub(super) const FILE: &str = "record.json";
const LIMIT: u64 = 16 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    pub name: ApplianceName,
    /// The release that made it, and runs it.
    pub release: Image,
    pub data_version: u32,
    #[serde(default)]
    pub applied: Vec<Applied>,
    pub data: Map<String, Value>,
    /// Words may hold `{release}`, `{data}`, `{run}` and `{config.KEY}`, where KEY is one of its data.
    pub command: Vec<String>,
    /// For people.
    pub made: String,
}

impl Record {
    /// None where there is no record: what else lies in `dir` is a leftover.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(FILE);
        let Some(bytes) = read_limited(&path, LIMIT)? else { return Ok(None) };
        let record = serde_json::from_slice(&bytes);
        record.map(Some).map_err(|error| Error::Damaged { path, why: error.to_string() })
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(FILE);
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| disk::Error::Encode { path: path.clone(), source })?;
        Ok(write_durably(&path, &bytes)?)
    }
}
