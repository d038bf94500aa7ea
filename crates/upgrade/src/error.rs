//! What can go wrong, what it comes to for the caller, and the way out.

use std::path::PathBuf;

use logic::exit::Exit;
use logic::upgrade::Refusal;

use crate::{backend, release, secrets, workload};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("refused: {refusal}")]
    Refused { name: String, refusal: Refusal },
    #[error(transparent)]
    Release(#[from] release::Error),
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(transparent)]
    Workload(#[from] workload::Error),
    #[error("the records of the appliance cannot be kept")]
    Disk(#[from] disk::Error),
    #[error("the secrets of the configuration are out of reach")]
    Secrets(#[from] secrets::Error),
    #[error("{} is of a newer Holdfast: {found}", path.display())]
    NewerThanProgram { path: PathBuf, found: String },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused { refusal, .. } => refusal.exit(),
            Self::Release(error) => error.exit(),
            Self::Workload(error) => error.exit(),
            Self::NewerThanProgram { .. } => Exit::Refused,
            Self::Damaged { .. } | Self::Secrets(_) => Exit::MetadataDamaged,
            Self::Backend(_) | Self::Disk(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::Refused { name, refusal } => refusal.hint(name),
            Self::Release(error) => error.hint(),
            Self::Workload(error) => error.hint(),
            Self::Backend(error) => error.hint(),
            Self::Disk(_) => {
                "see that the disk has room and is writable, then run the same command again".to_owned()
            }
            Self::Secrets(_) => {
                "keys are in the directory keys of the appliance; restore them from a backup".to_owned()
            }
            Self::NewerThanProgram { .. } => "use the Holdfast that wrote it, or a newer one".to_owned(),
            Self::Damaged { path, .. } => format!("restore {} from a backup", path.display()),
        }
    }
}
