//! The two custom resources, `migration.k8s.io/v1alpha1`, as they cross the wire. Fields that others write and we do not
//! know are left alone: a status is written whole, but nothing else ever is.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use logic::storage::{Migration, Phase, Resource, Stamp, State, StoredVersion};
use serde::{Deserialize, Serialize};

pub const GROUP: &str = "migration.k8s.io";
pub const VERSION: &str = "v1alpha1";
pub const API_VERSION: &str = "migration.k8s.io/v1alpha1";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageState {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: StorageStateSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StorageStateStatus>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StorageStateSpec {
    pub resource: Resource,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageStateStatus {
    #[serde(default)]
    pub persisted_storage_version_hashes: Vec<StoredVersion>,
    #[serde(default = "unknown")]
    pub current_storage_version_hash: StoredVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// How often what is stored how has changed. A migration counts for the change that it was made for.
    #[serde(default)]
    pub changes: u64,
    /// Of the custom resource's definition at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

fn unknown() -> StoredVersion {
    StoredVersion::Unknown
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageVersionMigration {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: StorageVersionMigrationSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StorageVersionMigrationStatus>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageVersionMigrationSpec {
    pub resource: GroupVersionResource,
    /// Where to begin, for whoever knows that what comes before is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupVersionResource {
    #[serde(default)]
    pub group: String,
    /// Through which objects are read and written; what they are stored in is the API server's choice. The preferred
    /// one, where none is given.
    #[serde(default)]
    pub version: String,
    pub resource: String,
}

impl GroupVersionResource {
    pub fn resource(&self) -> Resource {
        Resource::new(&*self.group, &*self.resource)
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageVersionMigrationStatus {
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Where to go on after an interruption: everything before it is done, or named among the failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Objects that could not be written, as `NAMESPACE/NAME: why`; the first of them, `progress.failed` counts all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// The reason of a migration that runs and waits for nothing; one that is stuck has another.
pub const MIGRATING: &str = "Migrating";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Objects that are stored in the current version now, whoever wrote them.
    pub migrated: u64,
    pub failed: u64,
    /// As the API server estimates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
    /// Objects a second, lately.
    #[serde(default)]
    pub per_second: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

/// The annotations that make a [`Stamp`]. Not fields, so that they also hold where somebody else installed the custom
/// resources and unknown fields are dropped.
const TARGET: &str = "storage.holdfast/version-hash";
const STATE: &str = "storage.holdfast/state-uid";
const CHANGE: &str = "storage.holdfast/change";

pub fn stamp_annotations(stamp: &Stamp) -> BTreeMap<String, String> {
    [(TARGET, stamp.target.to_string()), (STATE, stamp.state.clone()), (CHANGE, stamp.change.to_string())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

impl StorageVersionMigration {
    pub fn stamp(&self) -> Option<Stamp> {
        let annotations = self.metadata.annotations.as_ref()?;
        Some(Stamp {
            target: annotations.get(TARGET)?.as_str().into(),
            state: annotations.get(STATE)?.clone(),
            change: annotations.get(CHANGE)?.parse().ok()?,
        })
    }

    pub fn phase(&self) -> Phase {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        let holds = |kind: &str| conditions.clone().any(|it| it.kind == kind && it.status == "True");
        match () {
            () if holds("Succeeded") => Phase::Succeeded,
            () if holds("Failed") => Phase::Failed,
            () if holds("Running") => Phase::Running,
            () => Phase::Pending,
        }
    }

    /// As the trigger sees it.
    pub fn observed(&self) -> Migration {
        let name = self.metadata.name.clone().unwrap_or_default();
        Migration { name, stamp: self.stamp(), phase: self.phase() }
    }
}

impl StorageState {
    /// The name is the resource's: one that lies about it is nobody's state.
    pub fn is_named_right(&self) -> bool {
        self.metadata.name.as_deref() == Some(&self.spec.resource.to_string())
    }

    /// None where somebody was interrupted between making it and filling it.
    pub fn state(&self) -> Option<State> {
        let status = self.status.as_ref()?;
        if status.persisted_storage_version_hashes.is_empty() {
            return None;
        }
        Some(State {
            persisted: status.persisted_storage_version_hashes.clone(),
            current: status.current_storage_version_hash.clone(),
            // Without one it was never looked at.
            heartbeat: status.last_heartbeat_time.map_or(i64::MIN / 2, Timestamp::as_second),
            changes: status.changes,
            generation: status.observed_generation,
        })
    }
}

impl From<&State> for StorageStateStatus {
    fn from(state: &State) -> Self {
        Self {
            persisted_storage_version_hashes: state.persisted.clone(),
            current_storage_version_hash: state.current.clone(),
            last_heartbeat_time: Timestamp::from_second(state.heartbeat).ok(),
            changes: state.changes,
            observed_generation: state.generation,
        }
    }
}

/// What kube asks of a type that it reads and writes.
macro_rules! resource {
    ($type:ty, $kind:literal, $plural:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = k8s_openapi::ClusterResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> Cow<'_, str> {
                GROUP.into()
            }
            fn version((): &()) -> Cow<'_, str> {
                VERSION.into()
            }
            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(StorageState, "StorageState", "storagestates");
resource!(StorageVersionMigration, "StorageVersionMigration", "storageversionmigrations");

impl StorageState {
    pub fn new(resource: &Resource) -> Self {
        let metadata = ObjectMeta { name: Some(resource.to_string()), ..ObjectMeta::default() };
        Self {
            api_version: API_VERSION.into(),
            kind: "StorageState".into(),
            metadata,
            spec: StorageStateSpec { resource: resource.clone() },
            status: None,
        }
    }
}

impl StorageVersionMigration {
    /// One to be created; the API server completes its name.
    pub fn new(resource: &Resource, version: &str, stamp: Option<&Stamp>) -> Self {
        let metadata = ObjectMeta {
            generate_name: Some(format!("{resource}-")),
            annotations: stamp.map(stamp_annotations),
            ..ObjectMeta::default()
        };
        let resource = GroupVersionResource {
            group: resource.group.clone(),
            version: version.to_owned(),
            resource: resource.resource.clone(),
        };
        Self {
            api_version: API_VERSION.into(),
            kind: "StorageVersionMigration".into(),
            metadata,
            spec: StorageVersionMigrationSpec { resource, continue_token: None },
            status: None,
        }
    }
}
