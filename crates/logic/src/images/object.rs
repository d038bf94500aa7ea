//! The objects of a site, as they are stored and shown. The same shapes serve as custom resources in Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{DiskId, FileState, FileStatus, Format, ImageId, ImageName, NodeName, Seal};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<Spec, Status> {
    pub metadata: Metadata,
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub name: String,
    /// Empty until it is stored. A write with another one than the stored object's is refused.
    #[serde(default)]
    pub resource_version: String,
    /// RFC 3339, for people.
    #[serde(default)]
    pub creation_timestamp: String,
    /// Set when it is to be removed; it goes when all that it stands for is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

impl<Spec, Status: Default> Object<Spec, Status> {
    /// One that is not stored yet.
    pub fn new(name: impl Into<String>, spec: Spec) -> Self {
        let metadata = Metadata { name: name.into(), ..Metadata::default() };
        Self { metadata, spec, status: Status::default() }
    }
}

impl<Spec, Status> Object<Spec, Status> {
    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

pub type BackingImage = Object<ImageSpec, ImageStatus>;
pub type BackingImageManager = Object<ManagerSpec, ManagerStatus>;
pub type Disk = Object<DiskSpec, DiskStatus>;
pub type Volume = Object<VolumeSpec, VolumeStatus>;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Source {
    /// `http`, `https`, `file`, or `oci` with a digest.
    Url { url: String },
    /// Somebody uploads it to one disk; from there it is spread.
    Upload {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    pub source: Source,
    /// Looked up in the image, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// `sha256:…` or `sha512:…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// The disks that are to have it.
    #[serde(default)]
    pub disks: BTreeSet<DiskId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<ImageId>,
    /// What the image is, from the first manager that had all of it; all copies must be this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<Seal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_size: Option<u64>,
    #[serde(default)]
    pub disks: BTreeMap<DiskId, OnDisk>,
    /// Since when (milliseconds since 1970) nothing has used it on a disk; not there while something does.
    #[serde(default)]
    pub last_use: BTreeMap<DiskId, u64>,
    /// Who pulls it from its origin while nobody has it; who did, afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub puller: Option<Puller>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OnDisk {
    pub state: FileState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// It failed, and is not tried again by itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
    #[serde(default)]
    pub progress: u8,
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub rate: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// The lease on an image's origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Puller {
    pub disk: DiskId,
    /// Grows each time another disk takes over.
    pub term: u64,
}

/// What a manager runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// A path; in Kubernetes, a container image.
    pub path: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerSpec {
    pub disk: DiskId,
    pub path: String,
    pub node: NodeName,
    pub program: Program,
    /// The images that it is to have.
    #[serde(default)]
    pub images: BTreeMap<ImageName, ImageId>,
    /// The images that are to be gone from its disk. Nothing is deleted that is not named here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub removed: BTreeMap<ImageId, ImageName>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ManagerState {
    #[default]
    Stopped,
    Starting,
    Running,
    Error,
    /// Its node or its disk is gone.
    Unknown,
}

impl ManagerState {
    pub const ALL: [Self; 5] = [Self::Stopped, Self::Starting, Self::Running, Self::Error, Self::Unknown];

    pub fn name(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagerStatus {
    pub state: ManagerState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Where it listens, once it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default)]
    pub api_version: u32,
    #[serde(default)]
    pub api_min_version: u32,
    #[serde(default)]
    pub files: BTreeMap<ImageName, FileStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskSpec {
    pub node: NodeName,
    pub path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskStatus {
    pub ready: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default)]
    pub free: u64,
    #[serde(default)]
    pub size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    pub backing_image: ImageName,
    pub disk: DiskId,
    /// As large as its image, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its overlay is uploaded, as a backup's is; not made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upload: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// For its image to be downloaded to its disk.
    #[default]
    Waiting,
    Ready,
    Failed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeStatus {
    pub state: VolumeState,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The overlay, on its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of the image that it was made on; it never silently becomes another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_uuid: Option<ImageId>,
}
