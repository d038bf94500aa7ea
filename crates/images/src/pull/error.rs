//! Why an image could not be pulled, each with the way out.

use crate::file::FileError;
use crate::origin::OriginError;
use trust::digest::Digest;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    #[error(transparent)]
    Origin(#[from] OriginError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the checksum is wrong: {given} was given, the image is {got}{}", looks(.begin))]
    Checksum { given: Digest, got: Digest, begin: String },
    #[error("{given} was given, and the address says {said}")]
    TwoChecksums { given: Digest, said: Digest },
    #[error("the origin sends another image than the site has")]
    OtherImage,
    #[error("the origin changed {times} times while the image was fetched")]
    KeepsChanging { times: u32 },
    #[error("gave up after {tries} tries without a byte")]
    GaveUp { tries: u32, source: Box<OriginError> },
    #[error("only {received} of {expected} bytes came")]
    Short { received: u64, expected: u64 },
    #[error("more than {expected} bytes came")]
    Long { expected: u64 },
    #[error("cancelled")]
    Cancelled,
    #[error("a worker stopped: {0}")]
    Worker(String),
}

fn looks(begin: &str) -> String {
    if begin.is_empty() { String::new() } else { format!("; it begins with {begin:?}") }
}

impl PullError {
    /// Whether another try, later, may succeed without anybody doing anything.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::GaveUp { .. } | Self::KeepsChanging { .. } | Self::Short { .. } | Self::Worker(_) => true,
            Self::Origin(error) => error.is_passing(),
            Self::File(error) => error.is_out_of_space(),
            _ => false,
        }
    }

    /// Whether another try would end the same, as long as nobody asks for something else.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Checksum { .. } | Self::TwoChecksums { .. } | Self::File(FileError::Format(_)))
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Origin(error) => return error.hint(),
            Self::GaveUp { source, .. } => {
                return source
                    .hint()
                    .or_else(|| Some("check the origin and the network; what was fetched is kept".into()));
            }
            Self::File(error) => return error.hint(),
            Self::Checksum { begin, .. } if !begin.is_empty() => {
                "it is not tried again: the origin seems to send a page instead of the image, so open the address in a browser, then remove the image and create it again".into()
            }
            Self::Checksum { .. } => {
                "it is not tried again: compare the checksum with its publisher's, then remove the image and create it again with the right one".into()
            }
            Self::TwoChecksums { .. } => "leave the checksum out: the address says it".into(),
            Self::OtherImage => {
                "the origin was changed: create a new image from it, under another name".into()
            }
            Self::KeepsChanging { .. } => "use an address whose content does not change".into(),
            _ => return None,
        })
    }
}
