//! What can go wrong, what it comes to for the caller, and the way out.

use std::path::PathBuf;

use disk::Holder;
use logic::exit::Exit;
use logic::upgrade::{ApplianceName, Refusal};

use crate::{backend, kubernetes, release, secrets, supervise, workload};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no appliance {name}")]
    NoAppliance { name: ApplianceName },
    #[error("there is an appliance {name} already")]
    Exists { name: ApplianceName },
    #[error("somebody else is at work on {name}{}", shown(holder.as_ref()))]
    Busy { name: ApplianceName, holder: Option<Holder> },
    #[error("refused: {refusal}")]
    Refused { name: ApplianceName, refusal: Refusal },
    #[error("refused: {why}")]
    Rule { why: String, hint: String },
    #[error("the release cannot be brought")]
    Bring(#[from] BringError),
    #[error(transparent)]
    Release(#[from] release::Error),
    #[error("the reference is {found} now, not {asked}")]
    OtherRelease { asked: String, found: String },
    #[error("the release's migrations cannot be used")]
    Migrations(#[from] migrate::RegistryError),
    #[error(transparent)]
    Migrate(#[from] migrate::Error),
    #[error("new stores cannot be put in their place")]
    Stores(#[from] migrate::StoreError),
    #[error(transparent)]
    Kubernetes(#[from] kubernetes::Error),
    #[error(transparent)]
    Backend(#[from] backend::Error),
    #[error(transparent)]
    Workload(#[from] workload::Error),
    #[error(transparent)]
    Supervise(#[from] supervise::Error),
    #[error("the upgrade of {name} to {to} failed, and everything was put back: {why}")]
    Undone { name: ApplianceName, to: String, why: String },
    #[error("{name} could not be put back to {release}")]
    Stuck { name: ApplianceName, release: String, source: Box<Error> },
    #[error("the machine goes down; the upgrade of {name} goes on when it is up again")]
    Rebooting { name: ApplianceName },
    #[error("interrupted; {name} is left as it is")]
    Abandoned { name: ApplianceName },
    #[error("interrupted; nothing was changed")]
    Stopped,
    #[error("the journal holds no transaction")]
    NothingBegun,
    #[error("the records of the appliance cannot be kept")]
    Disk(#[from] disk::Error),
    #[error("the secrets of the configuration are out of reach")]
    Secrets(#[from] secrets::Error),
    #[error("{} is of a newer Holdfast: {found}", path.display())]
    NewerThanProgram { path: PathBuf, found: String },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

/// Why a release did not arrive, told by whoever brings it.
#[derive(Debug, thiserror::Error)]
#[error("{reference}")]
pub struct BringError {
    pub reference: String,
    pub exit: Exit,
    pub hint: String,
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

fn shown(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(": {} (process {})", holder.command, holder.pid)).unwrap_or_default()
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoAppliance { .. } => Exit::NotFound,
            Self::Busy { .. } => Exit::TryAgain,
            Self::Refused { refusal, .. } => refusal.exit(),
            Self::Exists { .. }
            | Self::Rule { .. }
            | Self::OtherRelease { .. }
            | Self::Migrations(_)
            | Self::NewerThanProgram { .. } => Exit::Refused,
            Self::Bring(error) => error.exit,
            Self::Release(error) => error.exit(),
            Self::Migrate(error) => error.exit(),
            Self::Stores(_) => Exit::MigrationFailed,
            Self::Kubernetes(error) => error.exit(),
            Self::Workload(error) => error.exit(),
            Self::Undone { .. } => Exit::RolledBack,
            Self::Stuck { .. } => Exit::RollbackFailed,
            Self::Abandoned { .. } | Self::Stopped | Self::Rebooting { .. } => Exit::Interrupted,
            Self::Damaged { .. } | Self::Secrets(_) => Exit::MetadataDamaged,
            Self::Backend(backend::Error::NotReady { .. }) => Exit::TimedOut,
            Self::Backend(backend::Error::Ended { .. }) => Exit::Unhealthy,
            Self::Backend(backend::Error::Interrupted) => Exit::Interrupted,
            Self::Backend(_) | Self::Supervise(_) | Self::Disk(_) | Self::NothingBegun => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoAppliance { .. } => "`holdfast appliance ls` shows those that are there".to_owned(),
            Self::Exists { name } => {
                format!("`holdfast appliance inspect {name}` shows it; choose another name")
            }
            Self::Busy { .. } => "wait until it is done, then try again".to_owned(),
            Self::Refused { name, refusal } => refusal.hint(name.as_str()),
            Self::Rule { hint, .. } => hint.clone(),
            Self::Bring(error) => error.hint.clone(),
            Self::Release(error) => error.hint(),
            Self::OtherRelease { .. } => "name the release by its digest".to_owned(),
            Self::Migrations(error) => error.hint(),
            Self::Migrate(error) => error.hint(),
            Self::Stores(error) => error.hint(),
            Self::Kubernetes(error) => error.hint(),
            Self::Backend(error) => error.hint(),
            Self::Workload(error) => error.hint(),
            Self::Supervise(error) => error.hint(),
            Self::Undone { name, .. } => {
                format!(
                    "mend what is named above and upgrade again; `holdfast appliance inspect {name}` shows the history"
                )
            }
            Self::Stuck { name, .. } => format!(
                "mend what is named above, then `holdfast upgrade {name} --rollback` tries again; \
                 the snapshot is kept"
            ),
            Self::Rebooting { name } => {
                format!("holdfast-appliances.service takes it on, or `holdfast appliance start {name}`")
            }
            Self::Abandoned { name } => {
                format!("`holdfast upgrade {name} --resume` finishes it, `--rollback` undoes it")
            }
            Self::Stopped => "run it again".to_owned(),
            Self::NothingBegun => "this is a defect".to_owned(),
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
