//! What can go wrong between the agent and its cluster.

use kubernetes::request::RequestError;

use crate::desk::DeskError;
use crate::machine::MachineError;

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Connect(#[from] kubernetes::connect::ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the resource ClusterVersion of holdfast.dev is not installed")]
    NotInstalled,
    #[error("somebody else writes the status of the ClusterVersion all the time")]
    Contended,
    #[error("the agent's books in the status of the ClusterVersion are damaged")]
    Books(#[source] serde_json::Error),
    #[error("the API server knows no {0}")]
    NoSuchKind(String),
    #[error("it belongs into a namespace, and names none")]
    NoNamespace,
    #[error("nothing says which release the cluster runs")]
    NoVersion,
    #[error("the version {version:?} of the Deployment {deployment} is none")]
    BadVersion { version: String, deployment: String, source: semver::Error },
}

impl ClusterError {
    pub fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let request = RequestError::of(what);
        move |source| Self::Request(request(source))
    }

    /// Of what may be otherwise in a while, with nobody changing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Contended | Self::NotInstalled | Self::NoSuchKind(_) => true,
            Self::Request(error) => error.is_passing(),
            Self::Connect(_)
            | Self::Books(_)
            | Self::NoNamespace
            | Self::NoVersion
            | Self::BadVersion { .. } => false,
        }
    }

    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NotInstalled => "run `holdfast agent install`",
            Self::Contended => {
                "see with `kubectl get clusterversion version -o yaml --show-managed-fields` who that is"
            }
            Self::NoSuchKind(_) => "see that its definition comes before it in the release",
            Self::NoNamespace => "the release must name it",
            Self::Books(_) => "remove status.books of the ClusterVersion: what the cluster runs is not in it",
            Self::NoVersion | Self::BadVersion { .. } => {
                "annotate the agent's Deployment with holdfast.dev/version, or set version in [agent.cluster]"
            }
        }
    }
}

impl From<ClusterError> for DeskError {
    fn from(error: ClusterError) -> Self {
        Self { why: oci::chain(&error), way_out: error.way_out().to_owned() }
    }
}

impl From<ClusterError> for MachineError {
    fn from(error: ClusterError) -> Self {
        Self { why: oci::chain(&error), way_out: error.way_out().to_owned(), passing: error.is_passing() }
    }
}
