//! What became of a request to an API server.

/// Why there is no answer, or which one.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the API server can't be asked: {what}")]
    Unreached { what: String, source: Box<kube::Error> },
    #[error("the API server refuses: {what}: {message}")]
    Refused { what: String, code: u16, message: String },
}

impl RequestError {
    /// For `map_err`: `what` was to be done.
    pub fn of(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| match source {
            kube::Error::Api(status) => {
                Self::Refused { what, code: status.code, message: status.message.clone() }
            }
            source => Self::Unreached { what, source: Box::new(source) },
        }
    }

    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Unreached { .. } => None,
        }
    }

    /// What is too much now, or does not work now, may later, with nobody changing anything.
    pub fn is_passing(&self) -> bool {
        matches!(self.code(), None | Some(401 | 408 | 409 | 429 | 500..))
    }

    pub fn hint(&self) -> &'static str {
        match self.code() {
            None => "see that the API server can be reached from here",
            Some(401) => "the credentials are not accepted: renew them",
            Some(403) => {
                "the account lacks the right that the message names; `holdfast storage install --dry-run` and `holdfast agent \
                 install --dry-run` show what each needs"
            }
            Some(404) => "see with `kubectl api-resources` that it is served",
            Some(408 | 429 | 500..) => "try again when the API server is better",
            Some(_) => "the message says what is wrong with it",
        }
    }
}
