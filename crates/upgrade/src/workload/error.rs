//! What can go wrong about a workload.

use std::path::PathBuf;

use logic::exit::Exit;
use logic::upgrade::ImageId;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no workload {name}")]
    NotThere { name: String },
    #[error("there is a workload {name} already")]
    Exists { name: String },
    #[error("the appliance has {0} workloads, which is the most it can have")]
    TooMany(usize),
    #[error("the workload {name} has no command")]
    NoCommand { name: String },
    #[error("the image {image} that made the workload {name} is gone")]
    MakerGone { name: String, image: ImageId },
    #[error("the data of the workload {name} is of version {found}, newer than the release's {known}")]
    Newer { name: String, found: u32, known: u32 },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("the records of workloads cannot be kept")]
    Disk(#[from] disk::Error),
    #[error(transparent)]
    Supervise(#[from] crate::supervise::Error),
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotThere { .. } => Exit::NotFound,
            Self::Exists { .. } | Self::TooMany(_) | Self::NoCommand { .. } | Self::Newer { .. } => {
                Exit::Refused
            }
            Self::Damaged { .. } | Self::MakerGone { .. } => Exit::MetadataDamaged,
            Self::Disk(_) | Self::Supervise(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NotThere { .. } => "`holdfast appliance inspect` lists them".to_owned(),
            Self::Exists { .. } => "choose another name, or remove that one first".to_owned(),
            Self::TooMany(_) => "remove some first".to_owned(),
            Self::NoCommand { .. } => "say what it runs".to_owned(),
            Self::MakerGone { .. } => "remove the workload and make it anew".to_owned(),
            Self::Newer { .. } => {
                "upgrade the appliance to the release that made it, or a newer one".to_owned()
            }
            Self::Damaged { path, .. } => format!("restore {} from a backup", path.display()),
            Self::Disk(_) => "see that the disk has room and is writable".to_owned(),
            Self::Supervise(error) => error.hint(),
        }
    }
}
