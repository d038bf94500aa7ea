//! The file by which a release says what it is, out of a tree that came from elsewhere: nothing is followed out of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use logic::graph::release::ReleaseMetadata;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

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
    let opened = || -> Result<File, Errno> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, tree, directory, Mode::empty())?;
        // Nothing that would be waited for, either.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        openat2(&root, FILE, flags, Mode::empty(), resolve).map(File::from)
    };
    let file = opened().map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => MetadataError::Missing,
        Errno::LOOP => MetadataError::NotAFile,
        error => MetadataError::Read(error.into()),
    })?;
    if !file.metadata().map_err(MetadataError::Read)?.is_file() {
        return Err(MetadataError::NotAFile);
    }
    let mut bytes = vec![];
    file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(MetadataError::Read)?;
    parse(&bytes)
}

pub(super) fn parse(bytes: &[u8]) -> Result<ReleaseMetadata, MetadataError> {
    if bytes.len() as u64 > LIMIT {
        return Err(MetadataError::TooLong);
    }
    serde_json::from_slice(bytes).map_err(MetadataError::Json)
}
