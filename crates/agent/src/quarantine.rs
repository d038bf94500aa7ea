//! Where an image waits until it is trusted: an OCI layout of its own (`image/`), with its signatures in and beside it, and what
//! is in the image (`tree/`), once it is trusted.
//!
//! [`Quarantine::fetch`] brings all that is needed to judge an image; [`Quarantine::check`] judges it, by what lies here and
//! without asking anybody: digests first, then signatures, and only then is anything unpacked and read. Nothing here is believed
//! to be what it was: both may be repeated at any time, and are after a restart.

mod carried;
mod check;
mod fetch;
mod identify;
mod inside;
mod keys;
mod metadata;
mod refusal;
mod signatures;
mod sources;

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use logic::graph::release::ReleaseMetadata;

pub use carried::{RELEASE_KEYS, ReleaseKeys};
pub use keys::{KeysError, RunningKeys, Trust};
pub use metadata::{MANIFESTS, MetadataError};
pub use refusal::Refusal;
pub use sources::Sources;

/// A release whose bytes, signatures and own words were checked, unpacked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Of the image as it was asked for: of the list, where it is one.
    pub digest: String,
    /// Names the image in quarantine, for whoever unpacks it again: `oci:DIR@sha256:…`.
    pub reference: String,
    /// What is in it.
    pub tree: PathBuf,
    /// What it says of itself.
    pub metadata: ReleaseMetadata,
    /// Of those who may say what follows it; none where it carries none.
    pub keys: Option<ReleaseKeys>,
    /// Fingerprints or key ids, one for each keyring.
    pub signed_by: Vec<String>,
}

/// The directory, which is nobody else's. One image is in it at a time.
#[derive(Debug, Clone)]
pub struct Quarantine {
    directory: PathBuf,
}

impl Quarantine {
    pub fn open(directory: &Path) -> Result<Self, Refusal> {
        let failed = |source| Refusal::Directory { path: directory.to_owned(), source };
        let directory = std::path::absolute(directory).map_err(failed)?;
        // What is not trusted yet is not for others to find.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        Ok(Self { directory })
    }

    /// The layout.
    fn image(&self) -> PathBuf {
        self.directory.join("image")
    }

    fn tree(&self) -> PathBuf {
        self.directory.join("tree")
    }

    /// Removes all that is there, whatever it is and whoever left it.
    pub async fn clear(&self) -> Result<(), Refusal> {
        let directory = self.directory.clone();
        refusal::blocking(move || {
            let failed = |source| Refusal::Directory { path: directory.clone(), source };
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                let path = entry.map_err(failed)?.path();
                disk::tree::remove(&path).map_err(|source| Refusal::Clear { path, source })?;
            }
            Ok(())
        })
        .await
    }
}
