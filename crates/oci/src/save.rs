//! Copying one image into a layout directory, blob by blob: what is there and right is not fetched again, what broke off goes
//! on where it did, and nothing has a blob's name before all of it has the blob's digest.
//!
//! Of an image for several platforms, the list and the image for one of them are copied. What an image says is not looked at.

mod blob;
mod error;
mod index;

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use trust::digest::Digest;

use crate::counters::FetchCounters;
use crate::limits::Limits;
use crate::manifest::{Descriptor, Platform};
use crate::reference::{ImageReference, ImageSource, Walked, fitting};
use crate::repository::Repository;

pub use error::SaveError;

pub type Bringing<'a> = Pin<Box<dyn Future<Output = Result<bool, String>> + Send + 'a>>;

/// Somebody nearer than the registry, who may have a layer.
pub trait Blobs: Send + Sync {
    /// Writes the blob to the file `into`, which it makes. False: not to be had there. What it brings is verified like
    /// everything else.
    fn bring<'a>(
        &'a self,
        repository: &'a str,
        digest: &'a Digest,
        size: u64,
        into: &'a Path,
    ) -> Bringing<'a>;
}

/// What is heard while an image is saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Bytes that are here, of how many.
    Here(u64, u64),
    /// Who should have brought a layer did not: it comes from the registry.
    NotBrought { digest: Digest, why: String },
}

pub struct Order<'a> {
    /// The layout directory; made if it is not there.
    pub into: &'a Path,
    pub platform: &'a Platform,
    /// Under which it is found in the layout, beside its digest.
    pub tag: Option<&'a str>,
    pub limits: &'a Limits,
    /// Bytes that are left free on the disk.
    pub reserve: u64,
    pub blobs: Option<&'a dyn Blobs>,
    pub heard: &'a (dyn Fn(Heard) + Send + Sync),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// As it was asked for.
    pub digest: Digest,
    /// Of the image for the platform; the same as `digest` unless that is a list's.
    pub manifest: Digest,
    /// Of all blobs.
    pub bytes: u64,
}

/// Which manifests an image has. Nothing but manifests is fetched, and they are kept: asked again, nobody is bothered.
pub async fn manifests(
    source: &ImageSource,
    digest: &Digest,
    order: &Order<'_>,
) -> Result<Vec<Digest>, SaveError> {
    let walked = walk(source, digest, order).await?;
    Ok(walked.chain.into_iter().map(|(digest, _)| digest).collect())
}

/// Copies an image. It is all there, and durable, when this returns.
pub async fn save(source: &ImageSource, digest: &Digest, order: &Order<'_>) -> Result<Saved, SaveError> {
    let Walked { chain, config, layers } = walk(source, digest, order).await?;
    let blobs = listed(&config, &layers, order.limits)?;
    let total: u64 = blobs.iter().map(|(blob, _)| blob.size).sum();
    let mut missing = vec![];
    let mut here = 0;
    let mut needed = 0;
    for (blob, is_layer) in &blobs {
        if blob::is_right(&path_of(order.into, &blob.digest), blob).await? {
            here += blob.size;
        } else {
            needed += blob.size.saturating_sub(blob::begun(order.into, &blob.digest).await);
            missing.push((*blob, *is_layer));
        }
    }
    (order.heard)(Heard::Here(here, total));
    has_room(order.into, needed, order.reserve)?;
    for (blob, is_layer) in missing {
        let told = |bytes: u64| (order.heard)(Heard::Here(here + bytes, total));
        blob::fetch(source, blob, is_layer, order, &told).await?;
        here += blob.size;
        (order.heard)(Heard::Here(here, total));
    }
    if let Some(first) = chain.first() {
        index::add(order.into, first, order.tag).await?;
    }
    let manifest = chain.last().map_or_else(|| digest.clone(), |(digest, _)| digest.clone());
    Ok(Saved { digest: digest.clone(), manifest, bytes: total })
}

/// Whether all of an image is in a layout: hashes every blob. Gives the digests of its manifests.
pub async fn prove(
    layout: &Path,
    digest: &Digest,
    platform: &Platform,
    limits: &Limits,
) -> Result<Vec<Digest>, SaveError> {
    let local = local(layout, limits);
    let walked = local.walk(digest, |entries| fitting(entries, platform)).await;
    let Walked { chain, config, layers } = walked.map_err(|error| error.on(platform))?;
    for (blob, _) in listed(&config, &layers, limits)? {
        let path = path_of(layout, &blob.digest);
        if !blob::is_right(&path, blob).await? {
            return Err(SaveError::Wrong { path, digest: blob.digest.clone() });
        }
    }
    Ok(chain.into_iter().map(|(digest, _)| digest).collect())
}

/// The manifests from the list down to the image: those that are here are not asked for.
async fn walk(source: &ImageSource, digest: &Digest, order: &Order<'_>) -> Result<Walked, SaveError> {
    index::begin(order.into).await?;
    let local = local(order.into, order.limits);
    let pick = |entries: &[Descriptor]| fitting(entries, order.platform);
    if let Ok(walked) = local.walk(digest, pick).await {
        return Ok(walked);
    }
    let walked = source.walk(digest, pick).await.map_err(|error| error.on(order.platform))?;
    for (digest, bytes) in &walked.chain {
        index::keep(&path_of(order.into, digest), bytes.clone()).await?;
    }
    Ok(walked)
}

fn local(layout: &Path, limits: &Limits) -> ImageSource {
    let counters = Arc::new(FetchCounters::default());
    let repository = Repository::in_layout(layout.to_owned(), limits, Arc::clone(&counters));
    let reference = ImageReference::in_layout(layout);
    ImageSource { reference, repository: Arc::new(repository), counters }
}

/// Each blob once, with whether it is a layer.
fn listed<'a>(
    config: &'a Descriptor,
    layers: &'a [Descriptor],
    limits: &Limits,
) -> Result<Vec<(&'a Descriptor, bool)>, SaveError> {
    let mut seen = BTreeSet::new();
    let mut total = 0_u64;
    let mut listed = vec![];
    for (blob, is_layer) in [(config, false)].into_iter().chain(layers.iter().map(|layer| (layer, true))) {
        let limit = if is_layer { limits.layer_bytes } else { limits.manifest_bytes };
        if blob.size > limit {
            return Err(SaveError::BlobSize { digest: blob.digest.clone(), size: blob.size, limit });
        }
        if seen.insert(&blob.digest) {
            total = total.saturating_add(blob.size);
            listed.push((blob, is_layer));
        }
    }
    if total > limits.image_bytes {
        return Err(SaveError::ImageSize { size: total, limit: limits.image_bytes });
    }
    Ok(listed)
}

/// A disk that would only be full in the end is not filled.
fn has_room(directory: &Path, needed: u64, reserve: u64) -> Result<(), SaveError> {
    let failed =
        |error: rustix::io::Errno| SaveError::File { path: directory.to_owned(), source: error.into() };
    let room = rustix::fs::statvfs(directory).map_err(failed)?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    if needed > 0 && needed.saturating_add(reserve) > free {
        return Err(SaveError::NoRoom { directory: directory.to_owned(), needed, reserve, free });
    }
    Ok(())
}

pub(crate) fn path_of(layout: &Path, digest: &Digest) -> PathBuf {
    let (algorithm, digits) = digest.parts();
    layout.join("blobs").join(algorithm).join(digits)
}
