//! What ends a command of this part, with its place in the product's table of exit codes and a way out.

use std::path::PathBuf;

use logic::exit::Exit;
use logic::storage::Resource;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no way to a cluster")]
    NoCluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("can't read {}", path.display())]
    Kubeconfig { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the API server can't be asked: {what}")]
    Request { what: String, source: Box<kube::Error> },
    #[error("the API server did not do what it was asked: {what}: {message}")]
    Answer { what: String, code: u16, message: String },
    #[error("the custom resources of migration.k8s.io are not installed")]
    NotInstalled,
    #[error("the API server at {0} is not ready")]
    NotReady(String),
    #[error("there is no resource {0} with a storage version")]
    NoSuchResource(Resource),
    #[error("the runtime could not be started")]
    Runtime(#[source] std::io::Error),
    #[error("{name} {why}")]
    Server {
        name: &'static str,
        why: String,
        #[source]
        words: LastWords,
    },
    #[error("can't listen on {address}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
}

/// The end of a server's log.
#[derive(Debug, Default, thiserror::Error)]
#[error("{}", if .0.is_empty() { "it said nothing".to_owned() } else { format!("its last words were\n{}", .0.join("\n")) })]
pub struct LastWords(pub Vec<String>);

impl Error {
    pub fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| match source {
            kube::Error::Api(status) => {
                Self::Answer { what, code: status.code, message: status.message.clone() }
            }
            source => Self::Request { what, source: Box::new(source) },
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::NoCluster(_) | Self::Kubeconfig { .. } | Self::Listen { .. } => Exit::Usage,
            Self::NotInstalled | Self::NoSuchResource(_) => Exit::NotFound,
            Self::Answer { code: 404, .. } => Exit::NotFound,
            // What is too much now, or does not work now, may later.
            Self::Answer { code: 408 | 429 | 500.., .. } | Self::Request { .. } => Exit::TryAgain,
            Self::Answer { .. } => Exit::Refused,
            Self::Server { .. } => Exit::TryAgain,
            Self::NotReady(_) => Exit::TryAgain,
            Self::Runtime(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoCluster(_) => "give --kubeconfig FILE, or set KUBECONFIG".to_owned(),
            Self::Kubeconfig { .. } => "check the path; `kubectl --kubeconfig FILE version` tries the same".to_owned(),
            Self::Answer { code: 401, .. } => {
                "the credentials in the kubeconfig are not accepted: renew them".to_owned()
            }
            Self::Answer { code: 403, .. } => {
                "the account lacks the right that the message names; what the controller needs is in `holdfast storage \
                 install --dry-run`"
                    .to_owned()
            }
            Self::Answer { code: 404, .. } => "see with `kubectl api-resources` that it is served".to_owned(),
            Self::Answer { code: 408 | 429 | 500.., .. } => "try again when it is better".to_owned(),
            Self::Answer { .. } => "the message says what is wrong with it".to_owned(),
            Self::Request { .. } => "see that the API server can be reached from here, and try again".to_owned(),
            Self::NotInstalled => "run `holdfast storage install`".to_owned(),
            Self::NotReady(_) => "wait until it is: `kubectl get --raw /readyz?verbose` says what it waits for".to_owned(),
            Self::NoSuchResource(_) => {
                "write it as `kubectl api-resources -o name` does, like cronjobs.batch; it must be one that can be \
                 listed and updated"
                    .to_owned()
            }
            Self::Server { .. } => "see that nothing else uses its data or its port, and what its log says; then try again".to_owned(),
            Self::Runtime(_) => "see whether the machine is out of memory or threads".to_owned(),
            Self::Listen { .. } => "give another address with --admin".to_owned(),
        }
    }
}
