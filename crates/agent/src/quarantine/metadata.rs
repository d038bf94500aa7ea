//! The file by which a release says what it is.

use std::io;
use std::path::Path;

use logic::graph::release::ReleaseMetadata;

use super::inside::{self, Inside};

/// Where a release keeps what it says of itself, and what a cluster is given.
pub const MANIFESTS: &str = "release-manifests";
/// Where it is.
pub(super) const FILE: &str = "release-manifests/release-metadata";
/// A version, and those that it may follow.
pub(super) const LIMIT: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("there is no {FILE} in it")]
    Missing,
    #[error("{FILE} is reached through a link, or is no plain file")]
    NotAFile,
    #[error("{FILE} is longer than {LIMIT} bytes")]
    TooLong,
    #[error("cannot read {FILE}")]
    Read(#[source] io::Error),
    #[error("{FILE} makes no sense")]
    Json(#[source] serde_json::Error),
    #[error("the layers of it cannot be read")]
    Layers(#[source] oci::layers::LayerError),
}

pub(super) fn read(tree: &Path) -> Result<ReleaseMetadata, MetadataError> {
    let bytes = inside::file(tree, Path::new(FILE), LIMIT).map_err(|error| match error {
        Inside::Missing => MetadataError::Missing,
        Inside::Other => MetadataError::NotAFile,
        Inside::TooLong => MetadataError::TooLong,
        Inside::Read(source) => MetadataError::Read(source),
    })?;
    parse(&bytes)
}

pub(super) fn parse(bytes: &[u8]) -> Result<ReleaseMetadata, MetadataError> {
    if bytes.len() as u64 > LIMIT {
        return Err(MetadataError::TooLong);
    }
    serde_json::from_slice(bytes).map_err(MetadataError::Json)
}
