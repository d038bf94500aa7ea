//! Why an image is not used: the way to it, the image, or what it says.

use std::io;
use std::path::PathBuf;

use logic::agent::CannotFollow;
use oci::address::AddressError;
use oci::signatures::StoreError;
use oci::{FetchError, ImageError, SaveError};
use trust::keyring::Verdict;

use super::keys::KeysError;
use super::metadata::MetadataError;

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("the image cannot be named so")]
    Reference(#[source] AddressError),
    #[error("{image} is named by a tag, which may point at another image tomorrow")]
    ByTag { image: String },
    #[error("the place of signatures {place:?}")]
    Store { place: String, source: Box<StoreError> },
    #[error("cannot ask for {image}")]
    Ask { image: String, source: FetchError },
    #[error("cannot fetch {image}")]
    Fetch { image: String, source: Box<SaveError> },
    #[error("no key is trusted, so nobody can have signed image {digest}")]
    NoKeys { digest: String },
    #[error("the keys that are trusted")]
    Keys(#[from] KeysError),
    #[error("image {digest} is not signed by who must sign it. {verdict}{}", listed(.troubles))]
    Unsigned { digest: String, verdict: Verdict, troubles: Vec<String> },
    #[error("image {digest} is not signed as far as can be seen. {verdict}{}", listed(.troubles))]
    SignaturesAway { digest: String, verdict: Verdict, troubles: Vec<String> },
    #[error("image {digest} in quarantine is not whole")]
    NotWhole { digest: String, source: Box<SaveError> },
    #[error("image {digest} cannot be unpacked")]
    Unpack { digest: String, source: Box<ImageError> },
    #[error("image {digest} is not a release")]
    NoRelease { digest: String, source: MetadataError },
    #[error("image {digest} carries keys that nobody could sign its successor with")]
    BadKeys { digest: String, source: Box<KeysError> },
    #[error("image {digest} may not be applied here")]
    CannotFollow { digest: String, source: Box<CannotFollow> },
    #[error("cannot use {}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot keep a signature in {}", path.display())]
    Keep { path: PathBuf, source: disk::Error },
    #[error("cannot remove {}", path.display())]
    Clear { path: PathBuf, source: disk::Error },
    #[error("interrupted")]
    Interrupted,
}

fn listed(troubles: &[String]) -> String {
    if troubles.is_empty() {
        String::new()
    } else {
        format!(". Not all could be asked: {}", troubles.join("; "))
    }
}

impl Refusal {
    /// Whether it may go away by itself. Otherwise this image comes to nothing here, and is removed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Ask { source, .. } => source.is_passing() && !matches!(source, FetchError::Mismatch { .. }),
            Self::Fetch { source, .. } | Self::NotWhole { source, .. } => source.is_passing(),
            Self::Unpack { source, .. } => source.is_out_of_space(),
            Self::SignaturesAway { .. } | Self::Directory { .. } | Self::Keep { .. } | Self::Clear { .. } => {
                true
            }
            Self::Interrupted => true,
            Self::Reference(_)
            | Self::ByTag { .. }
            | Self::Store { .. }
            | Self::NoKeys { .. }
            | Self::Keys(_)
            | Self::Unsigned { .. }
            | Self::NoRelease { .. }
            | Self::BadKeys { .. }
            | Self::CannotFollow { .. } => false,
        }
    }

    /// What somebody could do about it.
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Reference(_) => "write HOST/REPO@sha256:…, or oci:DIR:TAG for one that was carried in",
            Self::ByTag { .. } => "name it by its digest: `skopeo inspect docker://REF` says which",
            Self::Store { .. } => "see signatures in [agent]",
            Self::Fetch { source, .. } | Self::NotWhole { source, .. } if source.is_out_of_space() => {
                "make room on the disk of the agent's directory"
            }
            Self::Unpack { source, .. } if source.is_out_of_space() => {
                "make room on the disk of the agent's directory"
            }
            Self::Ask { .. } | Self::Fetch { .. } if self.is_passing() => "it is tried again by itself",
            Self::Ask { .. } | Self::Fetch { .. } => {
                "see that the image is where the graph says, and that this machine may read it"
            }
            Self::NoKeys { .. } => "name the keys of whom you trust in keys of [agent]",
            Self::Keys(error) => error.way_out(),
            Self::Unsigned { .. } => "have it signed with a key of every keyring, or see keys in [agent]",
            Self::SignaturesAway { .. } => "it is tried again by itself; see signatures in [agent]",
            Self::NotWhole { .. } => "it is fetched again when it is chosen again",
            Self::Unpack { .. } | Self::NoRelease { .. } | Self::BadKeys { .. } => {
                "tell whoever published it"
            }
            Self::CannotFollow { source, .. } => match **source {
                CannotFollow::OtherVersion { .. } => {
                    "tell whoever published it: the graph and the image disagree"
                }
                CannotFollow::NotNewer { .. } => "go back with `holdfast agent rollback`",
                CannotFollow::NotPrevious { .. } => "take a release in between first",
            },
            Self::Directory { .. } | Self::Keep { .. } | Self::Clear { .. } => {
                "see that the agent's directory is there, has room, and may be written to"
            }
            Self::Interrupted => "it is tried again by itself",
        }
    }
}

/// Files wait; the runtime does not.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Refusal::Interrupted))
}
