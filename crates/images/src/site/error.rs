//! What keeps a site from starting.

use std::net::SocketAddr;
use std::path::PathBuf;

use logic::images::{BadName, DiskId};

use crate::file::FileError;
use crate::identity;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("can't make the directory {}", .path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("the state can't be opened")]
    Open(#[from] store::OpenError),
    #[error("the state can't be used")]
    Store(#[from] store::Error),
    #[error("the site's certificates can't be used")]
    Identity(#[from] identity::Error),
    #[error("can't keep {}", .path.display())]
    Keep { path: PathBuf, source: disk::Error },
    #[error("this machine can't be called what it is called")]
    Node(#[source] BadName),
    #[error("{} can't be used as a disk", .path.display())]
    Disk { path: PathBuf, source: FileError },
    #[error("{} and {} are the same disk {id}", .first.display(), .second.display())]
    SameDisk { first: PathBuf, second: PathBuf, id: DiskId },
    #[error("other machines could not reach this one's managers: it listens on {address}")]
    NoAddress { address: SocketAddr },
    #[error("can't find out the version of {}: {what}", .path.display())]
    Program { path: PathBuf, what: String },
    #[error("a setting can't be changed while the service runs: {0}")]
    Fixed(&'static str),
}

impl Error {
    /// The next thing to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Listen { address, .. } => {
                format!("see what listens there: ss -ltnp 'sport = :{}'", address.port())
            }
            Self::Directory { path, .. } | Self::Keep { path, .. } => {
                format!("see that {} can be written, and that there is room", path.display())
            }
            Self::Open(error) => error.hint().to_owned(),
            Self::Store(error) => error.hint().unwrap_or("this is a defect").to_owned(),
            Self::Identity(error) => error.hint(),
            Self::Node(_) => "give it another name: images.node in the configuration, or --node".to_owned(),
            Self::Disk { path, .. } => format!("ls -la {}", path.display()),
            Self::SameDisk { second, .. } => format!(
                "name each disk once; if it was copied, remove {} from the copy",
                second.join("holdfast-disk.cfg").display()
            ),
            Self::NoAddress { .. } => {
                "set images.address to the address under which other machines reach this one".to_owned()
            }
            Self::Program { path, .. } => format!("see that it is a holdfast: {} --version", path.display()),
            Self::Fixed(_) => "restart the service".to_owned(),
        }
    }
}
