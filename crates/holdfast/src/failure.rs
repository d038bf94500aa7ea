//! How a failure reaches a person: what went wrong, why, and the next thing to type.

use std::error::Error;

use logic::exit::Exit;

#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: String,
    pub causes: Vec<String>,
    pub hint: String,
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn new(exit: Exit, error: &dyn Error, hint: impl Into<String>) -> Self {
        let mut causes = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        Self { exit, error: error.to_string(), causes, hint: hint.into() }
    }

    pub fn usage(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, error: error.into(), causes: vec![], hint: hint.into() }
    }

    pub fn print(&self) {
        eprintln!("error: {}", self.error);
        for cause in &self.causes {
            eprintln!("cause: {cause}");
        }
        if !self.hint.is_empty() {
            eprintln!("hint: {}", self.hint);
        }
    }
}

impl From<::guard::Error> for Failure {
    fn from(error: ::guard::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl From<::graph::Error> for Failure {
    fn from(error: ::graph::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl From<::storage::Error> for Failure {
    fn from(error: ::storage::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl From<::upgrade::Error> for Failure {
    fn from(error: ::upgrade::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}
