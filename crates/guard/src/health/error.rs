//! What keeps checks from being run at all. What one check finds is a result, never an error.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the health configuration is wrong: {what}")]
    Config { what: String },
    #[error("can't set up the machinery for running checks")]
    Runtime { source: io::Error },
}

impl Error {
    /// The next thing to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Config { .. } => "correct [guard.health] in the configuration".to_owned(),
            Self::Runtime { .. } => {
                "see whether the machine is out of memory, threads or file descriptors".to_owned()
            }
        }
    }
}
