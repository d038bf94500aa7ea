//! What ends a command of this part, with its place in the product's table of exit codes and a way out.

use kubernetes::connect::ConnectError;
use kubernetes::credential::Credential;
use kubernetes::request::RequestError;
use logic::exit::Exit;
use logic::storage::Resource;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the API server does not accept {0} any more")]
    Unauthorized(Credential),
    #[error("the custom resources of migration.k8s.io are not installed")]
    NotInstalled,
    #[error("the API server at {0} is not ready")]
    NotReady(String),
    #[error("there is no resource {0} with a storage version")]
    NoSuchResource(Resource),
    #[error("it was stopped before everything was migrated")]
    Interrupted,
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
        let request = RequestError::of(what);
        move |source| Self::Request(request(source))
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Connect(_) | Self::Listen { .. } => Exit::Usage,
            Self::Unauthorized(_) => Exit::Refused,
            Self::NotInstalled | Self::NoSuchResource(_) => Exit::NotFound,
            Self::Request(error) => match error.code() {
                Some(404) => Exit::NotFound,
                // What is too much now, or does not work now, may later.
                None | Some(408 | 429 | 500..) => Exit::TryAgain,
                Some(_) => Exit::Refused,
            },
            Self::Server { .. } => Exit::TryAgain,
            Self::NotReady(_) => Exit::TryAgain,
            Self::Interrupted => Exit::Interrupted,
            Self::Runtime(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::Connect(error) => error.hint().to_owned(),
            Self::Request(error) => error.hint().to_owned(),
            Self::Unauthorized(_) => "renew it, and run this again: what was begun goes on from where it was".to_owned(),
            Self::NotInstalled => "run `holdfast storage install`".to_owned(),
            Self::NotReady(_) => "wait until it is: `kubectl get --raw /readyz?verbose` says what it waits for".to_owned(),
            Self::NoSuchResource(_) => {
                "write it as `kubectl api-resources -o name` does, like cronjobs.batch; it must be one that can be \
                 listed and updated"
                    .to_owned()
            }
            Self::Server { .. } => "see that nothing else uses its data or its port, and what its log says; then try again".to_owned(),
            Self::Interrupted => "run it again: it goes on from where it was".to_owned(),
            Self::Runtime(_) => "see whether the machine is out of memory or threads".to_owned(),
            Self::Listen { .. } => "give another address with --admin".to_owned(),
        }
    }
}
