//! What can go wrong in a backend.

use std::path::PathBuf;
use std::time::Duration;

use logic::upgrade::{ImageId, SnapshotId};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the appliance's files cannot be changed")]
    Disk(#[from] disk::Error),
    #[error(transparent)]
    Release(#[from] crate::release::Error),
    #[error(transparent)]
    Program(#[from] program::RunError),
    #[error(transparent)]
    Vm(#[from] super::vm::Error),
    #[error(transparent)]
    Ostree(#[from] super::ostree::Error),
    #[error("the configuration is out of reach")]
    Configuration(#[from] Box<crate::Error>),
    #[error("{command} {ending}: {said}")]
    Failed { command: String, ending: String, said: String },
    #[error("a copy takes {need} bytes, and {} has {free}", path.display())]
    NoRoom { path: PathBuf, need: u64, free: u64 },
    #[error(transparent)]
    Supervise(#[from] crate::supervise::Error),
    #[error("the image {image} runs the workload {workload}, and is not removed")]
    Needed { image: ImageId, workload: String },
    #[error("this is not done to an appliance that is on")]
    On,
    #[error("there is no snapshot {id}")]
    NoSnapshot { id: SnapshotId },
    #[error("the image {image} is not there")]
    NoImage { image: ImageId },
    #[error("the image {image} is in force, and is not replaced or removed")]
    InForce { image: ImageId },
    #[error("no release is in force")]
    NoCurrent,
    #[error("it is not ready after {} s: {last}", after.as_secs())]
    NotReady { after: Duration, last: String },
    #[error("it ended while it was waited for: {last}")]
    Ended { last: String },
    /// Not a failure: whoever starts after the boot goes on.
    #[error("this host reboots")]
    Rebooting,
    #[error("interrupted while it was waited for")]
    Interrupted,
    #[error("{what}: {why}")]
    Machine { what: String, why: String },
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(_) => "see that the disk has room and is writable".to_owned(),
            Self::NoRoom { path, .. } => format!("make room on the file system of {}", path.display()),
            Self::Supervise(error) => error.hint(),
            Self::Needed { workload, .. } => format!("remove the workload {workload} first"),
            Self::On => "stop the appliance first".to_owned(),
            Self::Release(error) => error.hint(),
            Self::Program(error) => error.hint(),
            Self::Vm(error) => error.hint(),
            Self::Ostree(error) => error.hint(),
            Self::Rebooting => "it goes on with the next command after the boot".to_owned(),
            Self::Configuration(error) => error.hint(),
            Self::NotReady { .. } | Self::Ended { .. } => {
                "`holdfast appliance log` shows what it has printed".to_owned()
            }
            _ => String::new(),
        }
    }
}
