//! What ends a command of this part, with its place in the product's table of exit codes and a way out.

use logic::exit::Exit;

use crate::data::DataError;
use crate::scrape::ScrapeError;
use crate::serve;
use crate::source::one::SourceError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is nowhere to look for releases")]
    NoSource,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error("the sources could not be looked at")]
    Look(#[from] ScrapeError),
    #[error("the runtime could not be started")]
    Runtime(#[source] std::io::Error),
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoSource | Self::Source(_) | Self::Serve(_) => Exit::Usage,
            Self::Data(_) => Exit::Refused,
            Self::Look(ScrapeError::Data(error)) => match error.downcast_ref() {
                Some(DataError::Read { .. }) => Exit::NotFound,
                _ => Exit::Refused,
            },
            // What does not answer now may answer later; what is not there, or is something else, stays so.
            Self::Look(ScrapeError::Source { source, .. }) if source.is_missing() => Exit::NotFound,
            Self::Look(ScrapeError::Source { source, .. }) if !source.is_passing() => Exit::Refused,
            Self::Look(_) => Exit::TryAgain,
            Self::Runtime(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoSource => "give --source registry:https://HOST/REPO, oci:DIR or graph:FILE, or set \
                               graph.sources in /etc/holdfast/"
                .to_owned(),
            Self::Source(_) => {
                "write a source as registry:https://HOST/REPO, registry:http://HOST/REPO, oci:DIR or \
                 graph:FILE-or-URL"
                    .to_owned()
            }
            Self::Data(error) => error.hint().to_owned(),
            Self::Serve(error) => error.hint(),
            Self::Look(ScrapeError::Data(error)) => match error.downcast_ref::<DataError>() {
                Some(error) => error.hint().to_owned(),
                None => "see that it can be reached from here, and try again".to_owned(),
            },
            Self::Look(ScrapeError::Source { source, .. }) if source.is_missing() => {
                "check the address: there is nothing there".to_owned()
            }
            Self::Look(_) => "see that it can be reached from here, and try again".to_owned(),
            Self::Runtime(_) => "see whether the machine is out of memory or threads".to_owned(),
        }
    }
}
