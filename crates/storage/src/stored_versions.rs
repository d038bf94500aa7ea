//! The list in a CustomResourceDefinition's status of versions that objects may be stored in. After a migration it is
//! only the storage version, and versions that are not stored any more can be taken out of the definition.
//!
//! Architecture invariant: never after a migration that failed, never for another storage version than the one that was
//! migrated to, never over somebody's change of the definition.

use kube::Client;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, ResourceExt};
use logic::storage::{Resource, VersionHash};
use serde_json::json;
use tracing::info;

/// A custom resource's definition, as it was at one time.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    name: String,
    uid: Option<String>,
    generation: Option<i64>,
    resource_version: Option<String>,
    kind: String,
    storage: Option<String>,
    stored: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trimmed {
    Yes,
    /// The definition is another by now.
    Changed,
}

impl Definition {
    /// None for resources that are not custom.
    pub async fn read(client: &Client, resource: &Resource) -> kube::Result<Option<Self>> {
        // Groups of custom resources are domains.
        if !resource.group.contains('.') {
            return Ok(None);
        }
        let found = api(client).get_opt(&resource.to_string()).await?;
        Ok(found.map(|object| Self::from(&object)))
    }

    fn from(object: &DynamicObject) -> Self {
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let spec = &object.data["spec"];
        let versions = spec["versions"].as_array().map_or(&[][..], |all| all);
        let storage = versions.iter().find(|version| version["storage"] == true);
        let stored = object.data["status"]["storedVersions"].as_array().map_or(&[][..], |all| all);
        Self {
            name: object.name_any(),
            uid: object.uid(),
            generation: object.metadata.generation,
            resource_version: object.resource_version(),
            kind: text(&spec["names"]["kind"]).unwrap_or_default(),
            storage: storage.and_then(|version| text(&version["name"])),
            stored: stored.iter().filter_map(text).collect(),
        }
    }

    /// Whether nobody changed it since: a storage version that came and went meanwhile left objects behind.
    pub fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.generation == other.generation
    }

    /// Whether objects are stored in the version with this hash.
    pub fn stores(&self, resource: &Resource, hash: &VersionHash) -> bool {
        let version = self.storage.as_deref();
        version.is_some_and(|version| VersionHash::of(&resource.group, version, &self.kind) == *hash)
    }

    /// Strikes all versions but the storage version, if the definition is as it was read.
    pub async fn trim(&self, client: &Client) -> kube::Result<Trimmed> {
        let Some(storage) = &self.storage else { return Ok(Trimmed::Changed) };
        if self.stored == [storage.clone()] {
            return Ok(Trimmed::Yes);
        }
        let patch = json!({
            "metadata": {"uid": self.uid, "resourceVersion": self.resource_version},
            "status": {"storedVersions": [storage]},
        });
        let trim = api(client).patch_status(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        match trim {
            Ok(_) => {
                info!(definition = self.name, before = ?self.stored, after = storage, "stored versions trimmed");
                Ok(Trimmed::Yes)
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Trimmed::Changed),
            Err(error) => Err(error),
        }
    }
}

fn api(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, "customresourcedefinitions"))
}
