//! What can go wrong with a volume.

use std::io;
use std::path::{Path, PathBuf};

use logic::images::ImageName;

use crate::qcow2::BadHeader;

pub(super) type Result<T> = std::result::Result<T, VolumeError>;

#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    #[error("there is no volume {name} on this disk")]
    Missing { name: ImageName },
    #[error("there is a volume {name} already: remove it first, or choose another name")]
    Exists { name: ImageName },
    #[error(
        "there is a volume {name} already, on the image {image}: remove it first, or choose another name"
    )]
    OnAnother { name: ImageName, image: ImageName },
    #[error("the volume {name} is being made or removed by another call")]
    Busy { name: ImageName },
    #[error("the volume {name} is open for writing: stop what uses it first")]
    InUse { name: ImageName },
    #[error("the volume {name} was written to while it was read: stop what uses it, and try again")]
    Changed { name: ImageName },
    #[error(
        "the volume {name} can't have {size} bytes: its image has {least}, and what is beyond would be lost"
    )]
    TooSmall { name: ImageName, size: u64, least: u64 },
    #[error("what is restored as {name} is no qcow2 overlay")]
    NoOverlay { name: ImageName },
    #[error("what is restored as {name} can't be read")]
    Header { name: ImageName, source: BadHeader },
    #[error(
        "what is restored as {name} keeps its data in another file: back it up with `holdfast volume backup`"
    )]
    ExternalData { name: ImageName },
    #[error("the overlay of the volume {name} is encrypted, and its key is not known here")]
    Encrypted { name: ImageName },
    #[error(transparent)]
    Record(#[from] Damaged),
    #[error("can't run qemu-img: {why}; it is in the package qemu-utils")]
    NoQemu { why: String },
    #[error("qemu-img {what} failed: {why}")]
    Qemu { what: &'static str, why: String },
    #[error("can't {what} {path}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Disk(#[from] disk::Error),
}

/// A volume that does not tell any more what it is.
#[derive(Debug, thiserror::Error)]
#[error("the record of the volume {name} is damaged: {why}; its overlay is {}", overlay.display())]
pub struct Damaged {
    pub name: ImageName,
    pub why: String,
    pub overlay: PathBuf,
}

pub(super) fn at(what: &'static str, path: &Path) -> impl Fn(io::Error) -> VolumeError {
    let path = path.to_owned();
    move |source| VolumeError::File { what, path: path.clone(), source }
}
