//! What can go wrong about a supervisor and its program.

use std::io;
use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("its run directory cannot be used")]
    Disk(#[from] disk::Error),
    #[error("{} cannot be started", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("the supervisor cannot be started")]
    Launch { source: io::Error },
    #[error("it was not started: {why}")]
    NotStarted { why: String },
    #[error("the supervisor did not say within {seconds} s that it has started")]
    Silent { seconds: u64 },
    #[error("process {pid} was told to end, and killed, and is still there")]
    WillNotEnd { pid: u32 },
    #[error("somebody else has been starting or stopping it for {seconds} s")]
    Busy { seconds: u64 },
    #[error("cannot {what}")]
    System { what: &'static str, source: io::Error },
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(_) => "see that the disk has room and is writable".to_owned(),
            Self::Start { .. } | Self::NotStarted { .. } => {
                "see that the release's command names an executable".to_owned()
            }
            Self::WillNotEnd { .. } => {
                "it waits for the kernel, mostly for a disk or a network file system".to_owned()
            }
            Self::Busy { .. } => "wait for the other command, or end it".to_owned(),
            Self::Launch { .. } | Self::Silent { .. } | Self::System { .. } => {
                "see that the system has processes and memory left".to_owned()
            }
        }
    }
}

pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::System { what, source }
}
