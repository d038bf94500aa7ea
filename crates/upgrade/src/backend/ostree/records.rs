//! What this host's tools cannot say: which deployment an image is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use disk::durable::{read_limited, write_durably};
use logic::host::DeploymentId;
use logic::upgrade::{ImageId, SnapshotId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::Error;
use crate::backend::Result;
use crate::layout::Layout;

const LIMIT: u64 = 1 << 20;
/// Images come and go; of so many, none is in use.
const MOST: usize = 1000;

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Records {
    #[serde(default)]
    pub images: BTreeMap<String, DeploymentId>,
    /// From before the host goes down until it has come up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<Reboot>,
}

/// A reboot that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reboot {
    pub to: DeploymentId,
    /// The boot in which it was: in another one, it has happened.
    pub boot_id: String,
}

impl Records {
    pub fn load(layout: &Layout) -> Result<Self> {
        Ok(load(&path(layout))?.unwrap_or_default())
    }

    pub fn save(&self, layout: &Layout) -> Result<()> {
        save(&path(layout), self)
    }

    pub fn deployment(&self, image: &ImageId) -> Option<&DeploymentId> {
        self.images.get(image.as_str())
    }

    pub fn set(&mut self, image: &ImageId, deployment: &DeploymentId) {
        self.images.insert(image.as_str().to_owned(), deployment.clone());
        while self.images.len() > MOST {
            self.images.pop_first();
        }
    }

    pub fn image(&self, deployment: &DeploymentId, among: &[ImageId]) -> Option<ImageId> {
        among.iter().find(|image| self.deployment(image) == Some(deployment)).cloned()
    }
}

/// What ran when a snapshot was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Captured {
    deployment: DeploymentId,
}

pub fn captured(layout: &Layout, id: &SnapshotId) -> Result<Option<DeploymentId>> {
    Ok(load::<Captured>(&captured_path(layout, id))?.map(|captured| captured.deployment))
}

pub fn capture(layout: &Layout, id: &SnapshotId, deployment: &DeploymentId) -> Result<()> {
    let directory = layout.snapshot(id);
    std::fs::create_dir_all(&directory)
        .map_err(|error| disk::Error::io(disk::Operation::Create, &directory, error))?;
    save(&captured_path(layout, id), &Captured { deployment: deployment.clone() })
}

/// Whether what lies there is this host.
pub(crate) fn owns(layout: &Layout) -> bool {
    path(layout).exists()
}

fn path(layout: &Layout) -> PathBuf {
    layout.root().join("deployments.json")
}

fn captured_path(layout: &Layout, id: &SnapshotId) -> PathBuf {
    layout.snapshot(id).join("deployment.json")
}

fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = read_limited(path, LIMIT)? else { return Ok(None) };
    let damaged = |error: serde_json::Error| Error::Damaged { path: path.to_owned(), why: error.to_string() };
    Ok(Some(serde_json::from_slice(&bytes).map_err(damaged)?))
}

fn save<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|source| disk::Error::Encode { path: path.to_owned(), source })?;
    Ok(write_durably(path, &bytes)?)
}
