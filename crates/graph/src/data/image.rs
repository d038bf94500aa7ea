//! Graph data in an image, from a registry or a layout directory; signed, where keys are given.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci::address::AddressError;
use oci::signatures::{self, SignatureStore, StoreError};
use oci::{Access, Extent, FetchError, ImageError, ImageReference, ImageSource};
use trust::openpgp::{Keyring, OpenPgpError};

use super::source::blocking;
use super::tree::Tree;
use super::{DataError, directory};
use crate::settings::{Limits, Settings};
use crate::source::address::Address;

#[derive(Debug, thiserror::Error)]
pub enum ImageDataError {
    #[error("the reference")]
    Reference(#[source] AddressError),
    #[error("cannot read the key {}", path.display())]
    KeyFile { path: PathBuf, source: std::io::Error },
    #[error("the key {}", path.display())]
    Key { path: PathBuf, source: OpenPgpError },
    #[error("keys are given, and no place to find signatures")]
    NoStore,
    #[error("the place of signatures")]
    Store(#[source] StoreError),
    #[error("the image is refused")]
    Signature(#[source] StoreError),
    #[error("the image can't be fetched")]
    Fetch(#[source] FetchError),
    #[error("the image can't be read")]
    Image(#[source] ImageError),
    #[error("cannot use {}", path.display())]
    Cache { path: PathBuf, source: std::io::Error },
}

impl ImageDataError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Reference(_) => {
                "write image:HOST/REPO:TAG, image:HOST/REPO@DIGEST, image:oci:DIR:TAG or image:oci:DIR"
            }
            Self::KeyFile { .. } | Self::Key { .. } => "export the key with `gpg --export --armor NAME`",
            Self::NoStore => "set graph-data-signatures to a directory or a URL",
            Self::Store(_) | Self::Signature(_) => "sign the image again with a key of graph-data-keys",
            Self::Fetch(_) | Self::Image(_) => "run `skopeo inspect docker://REF` on this machine",
            Self::Cache { .. } => "see that cache-dir may be written to",
        }
    }
}

/// An image of graph data.
pub struct DataImage {
    reference: ImageReference,
    access: Access,
    /// Kept, for its connections and tokens.
    source: Option<ImageSource>,
    signed: Option<(Keyring, SignatureStore)>,
    /// Where it is taken apart.
    directory: PathBuf,
}

impl std::fmt::Debug for DataImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataImage").field("reference", &self.reference).finish_non_exhaustive()
    }
}

impl DataImage {
    pub fn open(reference: &str, settings: &Settings) -> Result<Self, ImageDataError> {
        let reference = ImageReference::parse(reference).map_err(ImageDataError::Reference)?;
        let access = access(&reference, settings);
        let signed = match (settings.graph_data_keys.is_empty(), &settings.graph_data_signatures) {
            (true, _) => None,
            (false, None) => return Err(ImageDataError::NoStore),
            (false, Some(place)) => {
                let store = SignatureStore::open(place, &access, &settings.limits.of_images());
                Some((keys(&settings.graph_data_keys)?, store.map_err(ImageDataError::Store)?))
            }
        };
        let directory = settings.cache_dir.join("graph-data.image");
        Ok(Self { reference, access, source: None, signed, directory })
    }

    /// The digest and the files; None if it is still `last`.
    pub async fn read(
        &mut self,
        last: Option<&str>,
        limits: &Limits,
    ) -> Result<Option<(String, Tree)>, DataError> {
        let source = match &mut self.source {
            Some(source) => source,
            none => {
                let opened = self.reference.open(&self.access, &limits.of_images()).await;
                none.insert(opened.map_err(ImageDataError::Fetch)?)
            }
        };
        let digest = source.digest().await.map_err(ImageDataError::Fetch)?;
        if last == Some(digest.as_str()) {
            return Ok(None);
        }
        let image = source.image(&digest).await.map_err(ImageDataError::Image)?;
        if let Some((keys, store)) = &self.signed {
            // Of a list, the whole may be signed, or the one image that is used.
            let candidates = [image.digest.as_str(), image.manifest.as_str()];
            let signed = signatures::verify(store, keys, &candidates).await;
            let signed = signed.map_err(ImageDataError::Signature)?;
            tracing::info!(digest = digest.as_str(), key = signed.fingerprint, "graph data is signed");
        }
        image
            .unpack(&self.directory, Extent::PlainFiles, &limits.of_images())
            .await
            .map_err(ImageDataError::Image)?;
        let (root, limits) = (self.directory.clone(), limits.clone());
        let tree = blocking(move || {
            let tree = directory::read(&data_root(&root), &limits);
            // All of it is in memory now; that it can't be removed is found out when the next one is taken apart.
            let _ = fs::remove_dir_all(&root);
            tree
        })
        .await?;
        Ok(Some((digest.as_str().to_owned(), tree)))
    }
}

/// Like a source on the same host, if there is one.
fn access(reference: &ImageReference, settings: &Settings) -> Access {
    let ImageReference::Registry { base, .. } = reference else { return Access::default() };
    let place = |url: &reqwest::Url| (url.host_str().map(str::to_owned), url.port_or_known_default());
    let same = settings.sources.iter().find(|source| {
        matches!(Address::from_str(&source.address), Ok(Address::Registry { base: other, .. }) if place(&other) == place(base))
    });
    same.map(Access::from).unwrap_or_default()
}

fn keys(paths: &[PathBuf]) -> Result<Keyring, ImageDataError> {
    let mut keys = Keyring::default();
    for path in paths {
        let content =
            fs::read(path).map_err(|source| ImageDataError::KeyFile { path: path.clone(), source })?;
        keys.add(&content).map_err(|source| ImageDataError::Key { path: path.clone(), source })?;
    }
    Ok(keys)
}

/// Images have the data at the top, or somewhere below it, as under `/var/lib/…`: the first directory, the
/// shallowest, that has a `version` and channels.
fn data_root(root: &Path) -> PathBuf {
    let mut level = vec![root.to_owned()];
    for _ in 0..5 {
        if let Some(found) =
            level.iter().find(|path| path.join("version").is_file() && path.join("channels").is_dir())
        {
            return found.clone();
        }
        let mut next: Vec<PathBuf> = level
            .iter()
            .filter_map(|path| fs::read_dir(path).ok())
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.is_dir())
            .collect();
        next.sort();
        level = next;
    }
    root.to_owned()
}
