//! What is to be done next, as data.

use std::collections::BTreeSet;

use super::{
    DiskId, DiskStatus, ImageId, ImageName, ImageStatus, ManagerSpec, ManagerStatus, NodeName, Seal,
    VolumeStatus,
};

/// One write, or one thing to be done outside. A write stands alone: after it everything is looked at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Stored before anything else is done with the image.
    GiveUuid(ImageName),
    SetImageStatus(ImageName, Box<ImageStatus>),
    SetImageDisks(ImageName, BTreeSet<DiskId>),
    RemoveImage(ImageName),
    CreateManager(Box<ManagerSpec>),
    SetManagerSpec(String, Box<ManagerSpec>),
    SetManagerStatus(String, Box<ManagerStatus>),
    MarkManager(String),
    RemoveManager(String),
    SetDiskStatus(DiskId, DiskStatus),
    RemoveDisk(DiskId),
    SetVolumeStatus(ImageName, Box<VolumeStatus>),
    RemoveVolume(ImageName),
    /// Of the manager's process, on this machine.
    Start(String),
    Stop(String),
    /// Everything that the first does not send or fetch now goes to the second; no file is touched.
    HandOver {
        from: String,
        to: String,
    },
    Call {
        manager: String,
        call: Call,
    },
}

impl Step {
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Start(_) | Self::Stop(_) | Self::HandOver { .. } | Self::Call { .. })
    }
}

/// What a manager is asked. All can be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// In the term of the lease that is stored.
    Pull {
        image: ImageName,
        uuid: ImageId,
        term: u64,
        seal: Option<Seal>,
        peers: Vec<PeerAddress>,
    },
    Sync {
        image: ImageName,
        uuid: ImageId,
        seal: Option<Seal>,
        peers: Vec<PeerAddress>,
    },
    Peers {
        image: ImageName,
        uuid: ImageId,
        peers: Vec<PeerAddress>,
    },
    Delete {
        image: ImageName,
        uuid: ImageId,
    },
    VolumeCreate {
        volume: ImageName,
        image: ImageName,
        uuid: ImageId,
        size: Option<u64>,
    },
    VolumeDelete {
        volume: ImageName,
    },
}

impl Call {
    /// The image or the volume, which has at most one call of a manager under way.
    pub fn about(&self) -> &ImageName {
        match self {
            Self::Pull { image, .. }
            | Self::Sync { image, .. }
            | Self::Peers { image, .. }
            | Self::Delete { image, .. } => image,
            Self::VolumeCreate { volume, .. } | Self::VolumeDelete { volume } => volume,
        }
    }
}

/// Where another manager that has an image, or part of it, can be asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    pub disk: DiskId,
    pub node: NodeName,
    pub address: String,
    pub path: String,
}
