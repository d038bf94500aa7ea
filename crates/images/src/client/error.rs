//! What can go wrong between a client and its site.

use wire::site::Status;

use crate::identity;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not the address of a site: expected https://HOST:PORT")]
    Address(String),
    #[error("{0} is not on this machine, and http:// would show the token to everybody on the way")]
    Plain(String),
    #[error("there is no token")]
    NoToken,
    #[error(transparent)]
    Token(#[from] identity::BadToken),
    #[error(transparent)]
    Identity(#[from] identity::Error),
    #[error("can't set up a connection")]
    Setup(#[source] reqwest::Error),
    #[error("no answer from the site at {server}")]
    Unreachable { server: String, source: reqwest::Error },
    #[error("{}", .0.message)]
    Refused(Box<Status>),
    #[error("the site answered {0}")]
    Status(http::StatusCode),
    #[error("the answer can't be understood")]
    Answer(#[source] serde_json::Error),
    #[error("an answer of more than {limit} bytes")]
    TooLong { limit: usize },
    #[error("the answer ended too soon")]
    Cut(#[source] reqwest::Error),
    #[error("{got} of {expected} bytes came")]
    Short { expected: u64, got: u64 },
}

impl Error {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Address(_) => "give --server https://HOST:PORT, or set HOLDFAST_SERVER".to_owned(),
            Self::Plain(_) => "use https://: `holdfast image serve` speaks it on every address".to_owned(),
            Self::NoToken => "give --token-file FILE, or set HOLDFAST_TOKEN; the site's first one is in admin.token beside its state".to_owned(),
            Self::Token(error) => error.hint(),
            Self::Identity(error) => error.hint(),
            Self::Unreachable { .. } => {
                "see that `holdfast image serve` runs there, and that --server and the token are of the same site".to_owned()
            }
            Self::Refused(status) => status.hint.clone(),
            Self::Cut(_) | Self::Short { .. } => "try again".to_owned(),
            Self::Setup(_) | Self::Status(_) | Self::Answer(_) | Self::TooLong { .. } => {
                "see that it is the address of `holdfast image serve`, of this version".to_owned()
            }
        }
    }

    pub fn exit(&self) -> logic::exit::Exit {
        use logic::exit::Exit;
        match self {
            Self::Address(_) | Self::Plain(_) | Self::NoToken | Self::Token(_) => Exit::Usage,
            Self::Unreachable { .. } | Self::Cut(_) | Self::Short { .. } => Exit::TryAgain,
            Self::Refused(status) => match status.code {
                404 => Exit::NotFound,
                400 | 401 => Exit::Usage,
                429 | 503 => Exit::TryAgain,
                403 | 409 | 412 | 413 | 422 | 507 => Exit::Refused,
                _ => Exit::Unexpected,
            },
            _ => Exit::Unexpected,
        }
    }
}
