//! What can go wrong with deployments of this host.

use std::path::PathBuf;

use logic::host::DeploymentId;
use logic::upgrade::ImageId;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the deployments of this host cannot be read")]
    Host(#[from] host::Error),
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("it is not known which deployment {image} is")]
    NotDeployed { image: ImageId },
    #[error("the deployment {deployment} is gone")]
    Gone { deployment: DeploymentId },
    #[error("{booted} runs, and not {expected}, which is in force")]
    OtherRuns { booted: DeploymentId, expected: DeploymentId },
    #[error("this host was to boot {target}, and has booted {booted}")]
    TurnedBack { target: DeploymentId, booted: DeploymentId },
    #[error("{command} ended well, and {wanted} is still not what boots next")]
    NoEffect { command: String, wanted: DeploymentId },
    #[error("{reference:?} cannot be given to {tool}")]
    Reference { reference: String, tool: &'static str },
    #[error("no command to reboot with is configured")]
    NoReboot,
}

impl Error {
    pub fn hint(&self) -> String {
        match self {
            Self::Host(error) => error.hint(),
            Self::Damaged { path, .. } => format!("remove {}, then stage the release again", path.display()),
            Self::NotDeployed { .. } => "stage the release again".to_owned(),
            Self::Gone { .. } => "somebody has removed it: upgrade to the release anew".to_owned(),
            Self::OtherRuns { expected, .. } => format!("boot {expected} first"),
            Self::TurnedBack { .. } => {
                "the boot loader or a health check went back: the journal of that boot says why".to_owned()
            }
            Self::NoEffect { command, .. } => format!("run \"{command}\" by hand and look at what it says"),
            Self::Reference { .. } => "name an image, a ref or a checksum".to_owned(),
            Self::NoReboot => "configure one; `systemctl reboot` is the usual".to_owned(),
        }
    }
}
