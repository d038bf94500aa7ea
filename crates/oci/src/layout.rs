//! An OCI layout directory: `oci-layout`, `index.json`, `blobs/`. The embedded default, where there is no registry.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use serde::Deserialize;
use tokio::io::AsyncSeekExt as _;

use crate::error::FetchError;
use crate::limits::Limits;
use crate::manifest::Descriptor;
use crate::signatures::is_said_of_another;
use crate::unpack::Blob;
use trust::digest::Digest;

/// The tag of an image.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Indexes in indexes: more than anybody writes.
const DEPTH: usize = 4;

#[derive(Debug)]
pub struct Layout {
    directory: PathBuf,
    manifest_bytes: u64,
    tags_limit: usize,
}

#[derive(Deserialize)]
struct Marker {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

impl Layout {
    pub(crate) fn new(directory: PathBuf, limits: &Limits) -> Self {
        Self { directory, manifest_bytes: limits.manifest_bytes, tags_limit: limits.images }
    }

    /// Every image, by its tag; one without a name has an empty tag and is told apart by its digest.
    pub(crate) async fn tags(&self) -> Result<Vec<(String, Digest)>, FetchError> {
        let marker: Marker = self.json("oci-layout").await?;
        if !marker.version.starts_with("1.") {
            let why = format!("layouts of version {:?} are not known here", marker.version);
            return Err(self.nonsense("oci-layout", why));
        }
        let index = self.read("index.json").await?;
        let index = self.list(&index, "index.json")?;
        let mut found = BTreeMap::new();
        self.collect(index, &mut found, DEPTH).await?;
        if found.len() > self.tags_limit {
            return Err(self.nonsense("index.json", format!("more than {} images", self.tags_limit)));
        }
        Ok(found.into_keys().collect())
    }

    /// Adds what an index names. Gives whether there was a name.
    async fn collect(
        &self,
        index: Vec<Descriptor>,
        found: &mut BTreeMap<(String, Digest), ()>,
        depth: usize,
    ) -> Result<bool, FetchError> {
        let mut named = false;
        for entry in index {
            let tag = entry.annotations.get(REF_NAME);
            // An index without a name is either a shelf of named images, or itself an image of several platforms.
            if tag.is_none() && entry.is_list() && depth > 0 {
                let what = format!("index {}", entry.digest);
                let bytes = self.manifest(&entry.digest).await?;
                entry.digest.check(&bytes).map_err(|got| FetchError::Mismatch {
                    what: what.clone(),
                    received: bytes.len() as u64,
                    got,
                })?;
                let inner = self.list(&bytes, &what)?;
                if Box::pin(self.collect_named(inner, found, depth - 1)).await? {
                    named = true;
                    continue;
                }
            }
            named |= tag.is_some();
            found.insert((tag.cloned().unwrap_or_default(), entry.digest), ());
        }
        Ok(named)
    }

    /// As `collect`, but leaves `found` alone where there was no name.
    async fn collect_named(
        &self,
        index: Vec<Descriptor>,
        found: &mut BTreeMap<(String, Digest), ()>,
        depth: usize,
    ) -> Result<bool, FetchError> {
        let mut inner = BTreeMap::new();
        let named = self.collect(index, &mut inner, depth).await?;
        if named {
            found.extend(inner);
        }
        Ok(named)
    }

    fn list(&self, bytes: &[u8], what: &str) -> Result<Vec<Descriptor>, FetchError> {
        #[derive(Deserialize)]
        struct Index {
            manifests: Vec<Descriptor>,
        }
        // Not through `Manifest`: the layout's own index may be as long as there are images.
        let index: Result<Index, _> = serde_json::from_slice(bytes);
        index.map(|index| index.manifests).map_err(|error| self.nonsense(what, error.to_string()))
    }

    pub(crate) async fn resolve(&self, tag: &str) -> Result<Digest, FetchError> {
        let tags = self.tags().await?;
        let missing = || FetchError::NoSuchTag { path: self.directory.clone(), tag: tag.to_owned() };
        tags.into_iter().find(|(name, _)| name == tag).map(|(_, digest)| digest).ok_or_else(missing)
    }

    pub(crate) async fn only(&self) -> Result<Digest, FetchError> {
        let tags = self.tags().await?;
        let images: BTreeSet<Digest> =
            tags.into_iter().filter(|(tag, _)| !is_said_of_another(tag)).map(|(_, digest)| digest).collect();
        let count = images.len();
        match images.into_iter().next() {
            Some(only) if count == 1 => Ok(only),
            _ => Err(FetchError::NotTheOnly { path: self.directory.clone(), count }),
        }
    }

    /// Not checked yet.
    pub(crate) async fn manifest(&self, digest: &Digest) -> Result<Vec<u8>, FetchError> {
        self.read(&blob_path(digest)).await
    }

    /// Not checked yet.
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Blob, FetchError> {
        let path = self.directory.join(blob_path(digest));
        let file = tokio::fs::File::open(&path).await;
        Ok(Box::pin(file.map_err(|source| FetchError::File { path, source })?))
    }

    /// Not checked yet.
    pub(crate) async fn blob_from(&self, digest: &Digest, from: u64) -> Result<Blob, FetchError> {
        let path = self.directory.join(blob_path(digest));
        let opened = async {
            let mut file = tokio::fs::File::open(&path).await?;
            file.seek(io::SeekFrom::Start(from)).await?;
            Ok(file)
        };
        let file = opened.await.map_err(|source| FetchError::File { path: path.clone(), source })?;
        Ok(Box::pin(file))
    }

    async fn read(&self, name: &str) -> Result<Vec<u8>, FetchError> {
        let (path, limit) = (self.directory.join(name), self.manifest_bytes);
        // The layout's own index grows with the number of images.
        let limit = if name == "index.json" { limit.saturating_mul(16) } else { limit };
        let shown = path.clone();
        let task = tokio::task::spawn_blocking(move || disk::durable::read_limited(&path, limit));
        let failed = |source: io::Error| FetchError::File { path: shown.clone(), source };
        match task.await.map_err(|_| FetchError::Interrupted)? {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(failed(io::ErrorKind::NotFound.into())),
            Err(disk::Error::TooLarge { limit, .. }) => {
                Err(FetchError::TooLong { what: shown.display().to_string(), limit })
            }
            Err(error) => Err(failed(io::Error::other(error))),
        }
    }

    async fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, FetchError> {
        let bytes = self.read(name).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.nonsense(name, error.to_string()))
    }

    fn nonsense(&self, what: &str, why: String) -> FetchError {
        FetchError::Nonsense { what: self.directory.join(what).display().to_string(), why }
    }
}

fn blob_path(digest: &Digest) -> String {
    let (algorithm, digits) = digest.parts();
    format!("blobs/{algorithm}/{digits}")
}
