//! What the machine consists of. It lies in the state, so that a snapshot captures it: after a revert the machine is
//! started as it was, whatever the release says by then.

use std::path::PathBuf;

use ::disk::durable::{read_limited, write_durably};
use logic::upgrade::ImageId;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::backend::Result;
use crate::layout::Layout;
use crate::release::VmPayload;

const FILE: &str = "definition.json";
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// The release that its files are of.
    pub image: ImageId,
    pub vm: VmPayload,
}

impl Definition {
    pub fn load(layout: &Layout) -> Result<Option<Self>> {
        let path = path(layout);
        let Some(bytes) = read_limited(&path, LIMIT)? else { return Ok(None) };
        let definition = serde_json::from_slice(&bytes);
        Ok(Some(definition.map_err(|error| Error::Definition { path, why: error.to_string() })?))
    }

    pub fn save(&self, layout: &Layout) -> Result<()> {
        let path = path(layout);
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|source| ::disk::Error::Encode { path: path.clone(), source })?;
        Ok(write_durably(&path, &bytes)?)
    }
}

/// Whether what lies there is a machine.
pub(crate) fn owns(layout: &Layout) -> bool {
    path(layout).exists()
}

fn path(layout: &Layout) -> PathBuf {
    layout.state().join(FILE)
}
