//! A migration that a release ships as an executable: JSON on standard input and output.

use std::path::PathBuf;

use crate::contract::{Failure, Input, Migration, Output, Work};
use crate::discover::Found;

pub(crate) struct Executable {
    name: String,
    digest: String,
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    #[error("executables can't be run yet: {}", path.display())]
    NotYet { path: PathBuf },
}

impl ExecutableError {
    pub fn hint(&self) -> String {
        "register a Rust type".to_owned()
    }
}

impl Executable {
    pub(crate) fn new(found: Found) -> Self {
        Self { name: found.name, digest: found.digest, path: found.path }
    }
}

impl Migration for Executable {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn migrate(&self, _input: &Input<'_>, _work: &Work<'_>) -> Result<Output, Failure> {
        Err(ExecutableError::NotYet { path: self.path.clone() }.into())
    }
}
