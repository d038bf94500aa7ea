//! A site as it was last seen: its objects, and what was heard of its managers since.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    BackingImage, BackingImageManager, Disk, DiskId, FileState, FileStatus, ImageId, ImageName, ManagerState,
    NodeName, PeerAddress, Program, Volume,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    pub images: BTreeMap<ImageName, BackingImage>,
    pub managers: BTreeMap<String, BackingImageManager>,
    pub disks: BTreeMap<DiskId, Disk>,
    pub volumes: BTreeMap<ImageName, Volume>,
    /// By the name of the manager.
    pub reports: BTreeMap<String, Report>,
    pub backoff: Backoff,
    /// The configured disks of this machine: whether the one that was expected is there.
    pub probes: BTreeMap<DiskId, Result<(), String>>,
    /// Milliseconds since 1970.
    pub now: u64,
}

/// What is to be left alone for a while, because it failed not long ago: a manager, and an image or a volume.
pub type Backoff = BTreeSet<(String, ImageName)>;

/// What does not change from look to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The machine that managers can be started on.
    pub node: NodeName,
    /// What default managers run.
    pub program: Program,
    /// The oldest and the newest API of managers that can be talked to.
    pub api: (u32, u32),
    /// Milliseconds; none: nothing is cleaned up.
    pub cleanup_after: Option<u64>,
    /// Milliseconds without a word until a manager is unknown.
    pub patience: u64,
}

/// What was heard of a manager. Not stored: it is heard again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub process: Process,
    /// When it last answered, or was started.
    pub heard: u64,
    pub address: Option<String>,
    /// Zero until it said so.
    pub api_version: u32,
    pub api_min_version: u32,
    /// What it listed last; none before it did since it was started.
    pub files: Option<BTreeMap<ImageName, FileStatus>>,
    /// What it says is wrong with its disk.
    pub disk_problem: Option<String>,
    /// Free and all bytes of its disk.
    pub space: Option<(u64, u64)>,
    /// The peers that it was told of, by image.
    pub told: BTreeMap<ImageName, Vec<PeerAddress>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Process {
    /// On another machine: it registered itself.
    Elsewhere,
    /// A child of this process.
    Runs,
    /// A child that has ended, or was not started yet; `wait` while it is too early to start it again.
    Ended { why: String, wait: bool },
}

/// What a manager is to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs the configured program: the only one that is told to fetch and to delete.
    Default,
    /// Runs another one. It keeps and sends what it has, until the default one takes it over.
    Old,
    /// Can't be talked to.
    Incompatible,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Old => "old",
            Self::Incompatible => "incompatible",
        }
    }
}

impl Rules {
    /// On other machines the program's path is theirs to choose; what counts is its version.
    pub fn role(&self, manager: &BackingImageManager) -> Role {
        let status = &manager.status;
        if !self.speaks((status.api_version, status.api_min_version)) {
            return Role::Incompatible;
        }
        let program = &manager.spec.program;
        let same_path = program.path == self.program.path || manager.spec.node != self.node;
        if program.version == self.program.version && same_path { Role::Default } else { Role::Old }
    }

    /// Whether a manager that speaks these versions of the API, the newest and the oldest, can be talked to. It can as long as
    /// it has not said any.
    pub fn speaks(&self, (newest, oldest): (u32, u32)) -> bool {
        newest == 0 || (newest >= self.api.0 && oldest <= self.api.1)
    }

    pub fn not_spoken(&self, (newest, oldest): (u32, u32)) -> String {
        format!(
            "it speaks versions {oldest} to {newest} of the API, and this site {} to {}: run another version of the program",
            self.api.0, self.api.1
        )
    }

    pub fn is_local(&self, manager: &BackingImageManager) -> bool {
        manager.spec.node == self.node
    }
}

impl Site {
    pub fn managers_of<'a>(
        &'a self,
        disk: &'a DiskId,
    ) -> impl Iterator<Item = (&'a String, &'a BackingImageManager)> {
        self.managers.iter().filter(move |(_, manager)| manager.spec.disk == *disk)
    }

    /// The one that looks after a disk from now on; of two, the one that runs.
    pub fn default_of<'a>(
        &'a self,
        rules: &Rules,
        disk: &'a DiskId,
    ) -> Option<(&'a String, &'a BackingImageManager)> {
        let defaults = self
            .managers_of(disk)
            .filter(|(_, manager)| !manager.is_deleted() && rules.role(manager) == Role::Default);
        defaults.min_by_key(|(_, manager)| manager.status.state != ManagerState::Running)
    }

    /// What a manager that answers now says about an image.
    pub fn file(&self, manager: &str, image: &ImageName, uuid: &ImageId) -> Option<&FileStatus> {
        let running = self.managers.get(manager)?.status.state == ManagerState::Running;
        let file = self.reports.get(manager)?.files.as_ref()?.get(image)?;
        (running && file.uuid == *uuid).then_some(file)
    }

    /// Whether a manager said what it has, since it or we were started.
    pub fn has_listed(&self, manager: &str) -> bool {
        self.reports.get(manager).is_some_and(|report| report.files.is_some())
    }

    /// Whether a copy is all of the image that the site knows under this name.
    pub fn is_verified(&self, image: &BackingImage, file: &FileStatus) -> bool {
        let seal = &image.status.seal;
        file.state == FileState::Downloaded && (seal.is_none() || file.seal.is_none() || *seal == file.seal)
    }

    /// Managers that answer and have all of an image.
    pub fn holders<'a>(
        &'a self,
        rules: &'a Rules,
        name: &'a ImageName,
        image: &'a BackingImage,
    ) -> impl Iterator<Item = (&'a String, &'a BackingImageManager)> {
        let uuid = image.status.uuid.as_ref();
        self.managers.iter().filter(move |(key, manager)| {
            let file = uuid.and_then(|uuid| self.file(key, name, uuid));
            rules.role(manager) != Role::Incompatible
                && file.is_some_and(|file| self.is_verified(image, file))
        })
    }

    /// Who can be asked for an image by others than those of one disk.
    pub fn peers(
        &self,
        rules: &Rules,
        name: &ImageName,
        image: &BackingImage,
        but: &DiskId,
    ) -> Vec<PeerAddress> {
        let Some(uuid) = &image.status.uuid else { return Vec::new() };
        let mut peers = Vec::new();
        for (key, manager) in &self.managers {
            if manager.spec.disk == *but || rules.role(manager) == Role::Incompatible {
                continue;
            }
            let Some(file) = self.file(key, name, uuid) else { continue };
            let grows = file.state == FileState::Downloading && manager.status.api_version >= GROWING_LISTS;
            let Some(address) = manager.status.address.clone() else { continue };
            if self.is_verified(image, file) || grows {
                let spec = &manager.spec;
                peers.push(PeerAddress {
                    disk: spec.disk.clone(),
                    node: spec.node.clone(),
                    address,
                    path: spec.path.clone(),
                });
            }
        }
        peers.sort();
        peers.dedup_by(|a, b| a.disk == b.disk);
        peers
    }

    /// Whether something on a disk stands on an image.
    pub fn is_used_on(&self, name: &ImageName, disk: &DiskId) -> bool {
        self.volumes.values().any(|volume| volume.spec.backing_image == *name && volume.spec.disk == *disk)
    }

    pub fn users<'a>(&'a self, name: &'a ImageName) -> impl Iterator<Item = &'a ImageName> {
        self.volumes.iter().filter(move |(_, volume)| volume.spec.backing_image == *name).map(|(key, _)| key)
    }
}

/// Since this version of the API managers follow lists that grow, and can be followed themselves.
const GROWING_LISTS: u32 = 2;
