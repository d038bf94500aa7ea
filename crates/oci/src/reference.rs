//! Any one image, by reference: what else than releases comes as images is read through this.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use oci::{Access, ImageReference, Limits, Extent};
//! # let limits = Limits::default();
//! // HOST/REPO:TAG, HOST/REPO@sha256:…, oci:DIR:TAG, oci:DIR@sha256:…, or oci:DIR where it holds one image only; https://,
//! // or http:// for a registry without TLS, may precede HOST.
//! let reference = ImageReference::parse("registry.example/graph-data:latest")?;
//! let source = reference.open(&Access::default(), &limits).await?; // once: it keeps connections and tokens
//! let digest = source.digest().await?; // one HEAD: unchanged is cheap
//! let image = source.image(&digest).await?; // manifest; image.digest, image.layers
//! image.unpack(std::path::Path::new("an/empty/directory"), Extent::Whole, &limits).await?;
//! # Ok(()) }
//! ```

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;

use crate::address::{self, AddressError, host_of};
use crate::counters::FetchCounters;
use crate::error::FetchError;
use crate::http::Access;
use crate::layers::LayerError;
use crate::limits::Limits;
use crate::manifest::{Descriptor, Manifest, ManifestError, Platform};
use crate::registry;
use crate::repository::Repository;
use crate::tree::{Budget, Extent, TreeWriter};
use trust::digest::Digest;

/// Lists in lists: more than anybody writes.
const LISTS: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("image {digest} is refused")]
    Manifest { digest: Digest, source: ManifestError },
    #[error("image {digest} holds no platform")]
    Empty { digest: Digest },
    #[error("image {digest} is not made for {architecture}")]
    Platform { digest: Digest, architecture: String },
    #[error("layer {digest} is refused")]
    Layer { digest: Digest, source: LayerError },
}

impl ImageError {
    pub(crate) fn on(self, platform: &Platform) -> Self {
        match self {
            Self::Empty { digest } => Self::Platform { digest, architecture: platform.architecture.clone() },
            error => error,
        }
    }

    /// The disk, or the quota, is full.
    pub fn is_out_of_space(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Layer { source: LayerError::Write { source, .. }, .. } if full(source.kind()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageReference {
    Registry { base: Url, repository: String, version: ImageVersion },
    Layout { directory: PathBuf, version: ImageVersion },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageVersion {
    Tag(String),
    Digest(Digest),
    /// The only image of a layout.
    Only,
}

impl ImageReference {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let bad = |why: &'static str| AddressError::new(text, why);
        if let Some(rest) = text.strip_prefix("oci:") {
            let (directory, version) = in_layout(rest).map_err(bad)?;
            return Ok(Self::Layout { directory: directory.into(), version });
        }
        let (name, version) = if let Some((name, digest)) = text.split_once('@') {
            let digest = Digest::parse(digest).map_err(|_| bad("what follows @ is not a digest"))?;
            (name, ImageVersion::Digest(digest))
        } else {
            match text.rsplit_once(':') {
                Some((name, tag)) if registry::is_tag(tag) => (name, ImageVersion::Tag(tag.to_owned())),
                _ => {
                    return Err(bad(
                        "a tag or a digest is missing: write HOST/REPO:TAG or HOST/REPO@sha256:…",
                    ));
                }
            }
        };
        let with_scheme = if name.contains("://") { name.to_owned() } else { format!("https://{name}") };
        let (base, repository) = address::registry(&with_scheme).map_err(bad)?;
        Ok(Self::Registry { base, repository, version })
    }

    /// Makes ready to ask; asks nothing yet.
    pub async fn open(&self, access: &Access, limits: &Limits) -> Result<ImageSource, FetchError> {
        let counters = Arc::new(FetchCounters::default());
        let shared = Arc::clone(&counters);
        let repository = match self {
            Self::Registry { base, repository, .. } => {
                let (base, repository) = (base.clone(), repository.clone());
                Repository::in_registry(base, repository, access.clone(), limits, shared).await?
            }
            Self::Layout { directory, .. } => Repository::in_layout(directory.clone(), limits, shared),
        };
        Ok(ImageSource { reference: self.clone(), repository: Arc::new(repository), counters })
    }

    /// A layout of one's own.
    pub fn in_layout(directory: &Path) -> Self {
        Self::Layout { directory: directory.to_owned(), version: ImageVersion::Only }
    }

    /// Another image at the same place.
    pub fn at(&self, other: ImageVersion) -> Self {
        match self {
            Self::Registry { base, repository, .. } => {
                Self::Registry { base: base.clone(), repository: repository.clone(), version: other }
            }
            Self::Layout { directory, .. } => Self::Layout { directory: directory.clone(), version: other },
        }
    }

    pub fn version(&self) -> &ImageVersion {
        match self {
            Self::Registry { version, .. } | Self::Layout { version, .. } => version,
        }
    }

    /// `HOST/REPO`, as signatures name it; of a layout, its directory.
    pub fn name(&self) -> String {
        match self {
            Self::Registry { base, repository, .. } => format!("{}/{repository}", host_of(base)),
            Self::Layout { directory, .. } => directory.display().to_string(),
        }
    }
}

/// `DIR:TAG`, `DIR@sha256:…` or `DIR`, of which a directory may hold any character.
fn in_layout(rest: &str) -> Result<(&str, ImageVersion), &'static str> {
    const FORMS: &str = "write oci:DIR:TAG, oci:DIR@sha256:…, or oci:DIR where it holds one image only";
    let (directory, version) = match (rest.rsplit_once('@'), rest.rsplit_once(':')) {
        (Some((directory, digest)), _) if digest.starts_with("sha256:") || digest.starts_with("sha512:") => {
            let digest = Digest::parse(digest).map_err(|_| "what follows @ is not a digest")?;
            (directory, ImageVersion::Digest(digest))
        }
        (_, Some((directory, tag))) if !tag.is_empty() && !tag.contains('/') => {
            (directory, ImageVersion::Tag(tag.to_owned()))
        }
        (_, Some((_, ""))) => return Err(FORMS),
        _ => (rest, ImageVersion::Only),
    };
    if directory.is_empty() { Err(FORMS) } else { Ok((directory, version)) }
}

/// Where one image is.
pub struct ImageSource {
    pub(crate) reference: ImageReference,
    pub(crate) repository: Arc<Repository>,
    pub counters: Arc<FetchCounters>,
}

impl ImageSource {
    /// Another image at the same place, over the same connections.
    pub fn at(&self, other: ImageVersion) -> Self {
        let (reference, repository) = (self.reference.at(other), Arc::clone(&self.repository));
        Self { reference, repository, counters: Arc::clone(&self.counters) }
    }

    /// What the reference points at now.
    pub async fn digest(&self) -> Result<Digest, FetchError> {
        match self.reference.version() {
            ImageVersion::Digest(digest) => Ok(digest.clone()),
            ImageVersion::Tag(tag) => self.repository.resolve(tag).await,
            ImageVersion::Only => self.repository.only().await,
        }
    }

    /// The image of a digest; of an image for several platforms, the first by digest: for what does not depend on the
    /// platform.
    pub async fn image(&self, digest: &Digest) -> Result<Image, ImageError> {
        self.image_by(digest, |entries| entries.iter().map(|entry| &entry.digest).min().cloned()).await
    }

    /// The image of a digest; of an image for several platforms, the one for `platform`.
    pub async fn image_for(&self, digest: &Digest, platform: &Platform) -> Result<Image, ImageError> {
        let image = self.image_by(digest, |entries| fitting(entries, platform)).await;
        image.map_err(|error| error.on(platform))
    }

    async fn image_by(
        &self,
        digest: &Digest,
        pick: impl Fn(&[Descriptor]) -> Option<Digest>,
    ) -> Result<Image, ImageError> {
        let Walked { chain, layers, .. } = self.walk(digest, pick).await?;
        let manifest = chain.last().map_or_else(|| digest.clone(), |(digest, _)| digest.clone());
        Ok(Image { digest: digest.clone(), manifest, layers, repository: Arc::clone(&self.repository) })
    }

    /// From the manifest of a digest, over lists, to an image.
    pub(crate) async fn walk(
        &self,
        digest: &Digest,
        pick: impl Fn(&[Descriptor]) -> Option<Digest>,
    ) -> Result<Walked, ImageError> {
        let mut next = digest.clone();
        let mut chain = vec![];
        for _ in 0..LISTS {
            let bytes = self.repository.manifest(&next).await?;
            let manifest = Manifest::parse(&bytes)
                .map_err(|source| ImageError::Manifest { digest: next.clone(), source })?;
            chain.push((next, bytes));
            match manifest {
                Manifest::Image { config, layers } => return Ok(Walked { chain, config, layers }),
                Manifest::List(entries) => {
                    let real: Vec<_> = entries.into_iter().filter(Descriptor::is_real).collect();
                    next = pick(&real).ok_or_else(|| ImageError::Empty { digest: digest.clone() })?;
                }
            }
        }
        Err(ImageError::Empty { digest: digest.clone() })
    }
}

/// The manifests on the way to an image, verified, and what the last one names.
pub(crate) struct Walked {
    /// Never empty.
    pub chain: Vec<(Digest, Vec<u8>)>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

pub(crate) fn fitting(entries: &[Descriptor], platform: &Platform) -> Option<Digest> {
    let mut fitting = entries.iter().filter(|entry| entry.platform.as_ref() == Some(platform));
    let only = entries.first().filter(|only| entries.len() == 1 && only.platform.is_none());
    fitting.next().or(only).map(|entry| entry.digest.clone())
}

/// One image whose manifest is verified. Its layers are verified as they are read.
pub struct Image {
    /// As the reference says it: of the list, where it is one.
    pub digest: Digest,
    /// Of the manifest that the layers are of; the same as `digest` unless that is a list's.
    pub manifest: Digest,
    /// Lowest first.
    pub layers: Vec<Descriptor>,
    repository: Arc<Repository>,
}

impl Image {
    /// Lets `work` read a layer of it, which is given only if the layer was the right one.
    pub async fn read_layer<T: Send + 'static>(
        &self,
        layer: &Descriptor,
        work: impl Fn(&mut dyn Read) -> Result<T, LayerError> + Clone + Send + 'static,
    ) -> Result<Result<T, LayerError>, FetchError> {
        self.repository.layer(layer, work).await
    }

    /// Puts what is in the image into `into`, an empty directory, made if it is not there; removals by upper layers hold. Limits: `tree_bytes`,
    /// `tree_entries`, `layer_bytes`. Extended attributes are left out. After an error, and where this is not waited
    /// for to its end, what is in `into` must not be used.
    pub async fn unpack(&self, into: &Path, extent: Extent, limits: &Limits) -> Result<(), ImageError> {
        // Not layer by layer: what a garbled layer left behind must not show through the right one.
        self.repository.retrying(|| self.unpack_once(into, extent, limits)).await?
    }

    async fn unpack_once(
        &self,
        into: &Path,
        extent: Extent,
        limits: &Limits,
    ) -> Result<Result<(), ImageError>, FetchError> {
        let budget = Budget { bytes: limits.tree_bytes, entries: limits.tree_entries };
        let failed = |source| FetchError::File { path: into.to_owned(), source };
        let mut writer =
            emptied(into).and_then(|()| TreeWriter::new(into, extent, budget)).map_err(failed)?;
        let limit = limits.layer_bytes;
        for layer in &self.layers {
            let refused = |source| ImageError::Layer { digest: layer.digest.clone(), source };
            if !layer.is_file_layer() {
                // Without it the tree would have holes that nobody sees.
                if extent != Extent::PlainFiles {
                    return Ok(Err(refused(LayerError::MediaType(layer.media_type.clone()))));
                }
                continue;
            }
            if layer.size > limit {
                return Ok(Err(refused(LayerError::Bytes { limit })));
            }
            let work = move |source: &mut dyn Read| writer.layer(source, limit).map(|()| writer);
            match self.repository.layer_once(layer, work).await? {
                Ok(after) => writer = after,
                Err(source) => return Ok(Err(refused(source))),
            }
        }
        Ok(Ok(()))
    }
}

/// Also of what an earlier try left, however deep.
fn emptied(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for entry in fs::read_dir(directory)? {
        disk::tree::remove(&entry?.path()).map_err(io::Error::other)?;
    }
    Ok(())
}
