//! Where everything of one appliance lies.
//!
//! ```text
//! DIR/NAME/
//!   appliance.json    what it is: its backend, its identity
//!   lock, journal     of the transaction               ─┐
//!   point.json        the rollback point                │ outside of what a snapshot captures: undone, where they
//!   keys/ID           keys of secrets                   │ must be, by the transaction itself
//!   releases/IMAGE/   images, side by side              │
//!   current           link to the release in force      │
//!   workloads/NAME/   what runs across upgrades        ─┘
//!   state/            what a snapshot captures: configuration.json, data/
//!   snapshots/ID/     state/ as it was, and snapshot.json, which is written last
//!   run/              of what runs now: locks, sockets, logs
//!   incoming/         a release that is being brought
//! ```

use std::path::{Path, PathBuf};

use logic::upgrade::{ApplianceName, ImageId, SnapshotId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// `directory` holds all appliances.
    pub fn new(directory: &Path, name: &ApplianceName) -> Self {
        Self { root: directory.join(name.as_str()) }
    }

    /// Of an appliance whose directory is known.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn appliance(&self) -> PathBuf {
        self.root.join("appliance.json")
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    pub fn point(&self) -> PathBuf {
        self.root.join("point.json")
    }

    pub fn history(&self) -> PathBuf {
        self.root.join("history")
    }

    pub fn keys(&self) -> PathBuf {
        self.root.join("keys")
    }

    pub fn releases(&self) -> PathBuf {
        self.root.join("releases")
    }

    pub fn release(&self, image: &ImageId) -> PathBuf {
        self.releases().join(image.as_str())
    }

    pub fn current(&self) -> PathBuf {
        self.root.join("current")
    }

    pub fn workloads(&self) -> PathBuf {
        self.root.join("workloads")
    }

    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    pub fn configuration(&self) -> PathBuf {
        self.state().join("configuration.json")
    }

    pub fn data(&self) -> PathBuf {
        self.state().join("data")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.root.join("snapshots")
    }

    pub fn snapshot(&self, id: &SnapshotId) -> PathBuf {
        self.snapshots().join(id.as_str())
    }

    pub fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    pub fn incoming(&self) -> PathBuf {
        self.root.join("incoming")
    }

    /// Where migrations work.
    pub fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }
}
