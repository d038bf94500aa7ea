//! What can go wrong with migrations, and the way out of each.

use std::io;
use std::path::PathBuf;

use logic::exit::Exit;
use logic::migrate::{Refusal, Secrets, Target};

use crate::contract::Failure;
use crate::discover::BadName;
use crate::stores::StoreError;

/// What is wrong with a set of migrations. Nothing is left out silently: a migration that is not run is worse than a
/// release that is not installed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error("there are two migrations of {target} data to version {version}: {first} and {second}")]
    Duplicate { target: Target, version: u32, first: String, second: String },
    #[error(
        "a migration of {target} data to version {version} makes no sense: the first one leads to version 2"
    )]
    BadVersion { target: Target, version: u32 },
    #[error("can't read the migrations in {}", dir.display())]
    List { dir: PathBuf, source: io::Error },
    #[error("there are more than {limit} files in {}", dir.display())]
    TooMany { dir: PathBuf, limit: usize },
    #[error("can't read the migration {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not named like a migration", path.display())]
    BadName { path: PathBuf, source: BadName },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is not executable", path.display())]
    NotExecutable { path: PathBuf },
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
}

impl RegistryError {
    pub fn hint(&self) -> String {
        match self {
            Self::Duplicate { .. } => "keep one: each version has exactly one migration".to_owned(),
            Self::BadVersion { .. } => "give it the version that the data has afterwards".to_owned(),
            Self::List { dir, .. } => format!("see that {} is a directory that can be read", dir.display()),
            Self::TooMany { dir, .. } => format!("keep only migrations in {}", dir.display()),
            Self::Read { path, .. } => format!("see that {} can be read", path.display()),
            Self::BadName { .. } => {
                "name it <target>-<version>[-words], such as appliance-3-rename-port, or move it elsewhere"
                    .to_owned()
            }
            Self::NotAFile { path } => format!("put the executable itself where {} is", path.display()),
            Self::NotExecutable { path } => format!("chmod +x {}", path.display()),
            Self::TooLarge { .. } => "keep what is large out of the executable".to_owned(),
        }
    }
}

/// Why data was not migrated. Nothing was persisted, and the data keeps its version.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the {} data can't be migrated", target_of(.0))]
    Refused(#[source] Refusal),
    #[error("the migration of {target} data to version {version} ({name}) failed")]
    Failed { target: Target, version: u32, name: String, source: Told },
    #[error("the migration of {target} data to version {version} ({name}) left stores that can't be used")]
    Stores { target: Target, version: u32, name: String, source: Box<StoreError> },
    #[error("the migration of {target} data was stopped before version {version}")]
    Stopped { target: Target, version: u32 },
    #[error("can't work in {}", path.display())]
    Scratch { path: PathBuf, source: io::Error },
}

fn target_of(refusal: &Refusal) -> Target {
    match refusal {
        Refusal::NoVersion { target }
        | Refusal::Newer { target, .. }
        | Refusal::RecordAhead { target, .. }
        | Refusal::Altered { target, .. }
        | Refusal::Missing { target, .. } => *target,
    }
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::Failed { source: Told { hint: Some(hint), .. }, .. } => hint.clone(),
            Self::Failed { name, .. } => {
                format!("mend {name} or the data it does not understand; nothing was changed")
            }
            Self::Stores { source, .. } => source.hint(),
            Self::Stopped { .. } => "run it again; nothing was changed".to_owned(),
            Self::Scratch { path, .. } => {
                format!("see that {} can be written and its disk is not full", path.display())
            }
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Refused(_) => Exit::Refused,
            Self::Stopped { .. } => Exit::Interrupted,
            Self::Failed { .. } | Self::Stores { .. } | Self::Scratch { .. } => Exit::MigrationFailed,
        }
    }
}

/// What a migration said went wrong, with its causes, and without the secrets of the data.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Told {
    text: String,
    hint: Option<String>,
}

impl Told {
    pub(crate) fn by(failure: &Failure, secrets: &Secrets) -> Self {
        let mut text = failure.to_string();
        let mut cause = failure.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Self { text: secrets.hide(&text), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }
}
