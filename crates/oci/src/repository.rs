//! Where images are: a repository in a registry, or a layout directory. Whatever comes out of here has the digest that
//! it was asked for by.

use std::future::Future;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::io::AsyncReadExt as _;

use crate::counters::FetchCounters;
use crate::error::FetchError;
use crate::http::Access;
use crate::layers::LayerError;
use crate::layout::Layout;
use crate::limits::Limits;
use crate::manifest::Descriptor;
use crate::registry::Registry;
use crate::retry;
use crate::unpack::{self, Blob};
use trust::digest::Digest;

enum Place {
    Registry(Box<Registry>),
    Layout(Layout),
}

pub struct Repository {
    place: Place,
    retries: usize,
    pub(crate) grace: Duration,
    counters: Arc<FetchCounters>,
}

impl Repository {
    /// Makes ready to ask; asks nothing yet. `base` is the scheme and the host of a registry.
    pub async fn in_registry(
        base: Url,
        repository: String,
        access: Access,
        limits: &Limits,
        counters: Arc<FetchCounters>,
    ) -> Result<Self, FetchError> {
        let registry = Registry::open(base, repository, access, limits, Arc::clone(&counters)).await?;
        let (place, grace) = (Place::Registry(Box::new(registry)), limits.fetch_timeout);
        Ok(Self { place, retries: limits.retries, grace, counters })
    }

    pub fn in_layout(directory: PathBuf, limits: &Limits, counters: Arc<FetchCounters>) -> Self {
        let (place, grace) = (Place::Layout(Layout::new(directory, limits)), limits.fetch_timeout);
        // A file that is wrong stays wrong.
        Self { place, retries: 0, grace, counters }
    }

    /// All tags, sorted, and their digests where the list says them.
    pub async fn tags(&self) -> Result<Vec<(String, Option<Digest>)>, FetchError> {
        let registry = match &self.place {
            Place::Layout(layout) => {
                let tags = layout.tags().await?;
                return Ok(tags.into_iter().map(|(tag, digest)| (tag, Some(digest))).collect());
            }
            Place::Registry(registry) => registry,
        };
        let mut tags = std::collections::BTreeSet::new();
        let mut next = None;
        loop {
            let page = self.retrying(|| registry.tag_page(next.clone()));
            let (names, following) = page.await?;
            let before = tags.len();
            tags.extend(names);
            let nonsense =
                |why: String| FetchError::Nonsense { what: "the registry's list of tags".to_owned(), why };
            if tags.len() > registry.tags_limit() {
                return Err(nonsense(format!("it has more than {} entries", registry.tags_limit())));
            }
            match following {
                None => return Ok(tags.into_iter().map(|tag| (tag, None)).collect()),
                Some(_) if tags.len() == before => {
                    return Err(nonsense("a page says nothing new, and that there are more".to_owned()));
                }
                following => next = following,
            }
        }
    }

    /// What a tag points at now.
    pub async fn resolve(&self, tag: &str) -> Result<Digest, FetchError> {
        match &self.place {
            Place::Registry(registry) => self.retrying(|| registry.resolve(tag)).await,
            Place::Layout(layout) => layout.resolve(tag).await,
        }
    }

    /// The one image that there is, beside signatures and other things that are said of it.
    pub async fn only(&self) -> Result<Digest, FetchError> {
        match &self.place {
            Place::Layout(layout) => layout.only().await,
            Place::Registry(_) => Err(FetchError::Nonsense {
                what: "the reference".to_owned(),
                why: "it names no tag and no digest".to_owned(),
            }),
        }
    }

    pub async fn manifest(&self, digest: &Digest) -> Result<Vec<u8>, FetchError> {
        let attempt = || async {
            let bytes = match &self.place {
                Place::Registry(registry) => registry.manifest(digest).await?,
                Place::Layout(layout) => layout.manifest(digest).await?,
            };
            match digest.check(&bytes) {
                Ok(()) => Ok(bytes),
                Err(got) => {
                    let (what, received) = (format!("manifest {digest}"), bytes.len() as u64);
                    Err(FetchError::Mismatch { what, received, got })
                }
            }
        };
        self.retrying(attempt).await
    }

    /// A blob that is small enough to be held: the caller has looked at its size.
    pub async fn small_blob(&self, blob: &Descriptor) -> Result<Vec<u8>, FetchError> {
        let what = || format!("blob {}", blob.digest);
        let attempt = || async {
            let mut bytes = vec![];
            let mut reader = self.blob(&blob.digest).await?.take(blob.size.saturating_add(1));
            let limit = unpack::time_for(blob.size, self.grace);
            let read = tokio::time::timeout(limit, reader.read_to_end(&mut bytes)).await;
            let received = bytes.len() as u64;
            match read {
                Err(_) => return Err(FetchError::TimedOut { what: what(), limit }),
                Ok(Err(source)) => return Err(FetchError::Body { what: what(), received, source }),
                Ok(Ok(_)) => {}
            }
            match blob.digest.check(&bytes) {
                Ok(()) => Ok(bytes),
                Err(got) => Err(FetchError::Mismatch { what: what(), received, got }),
            }
        };
        self.retrying(attempt).await
    }

    /// As [`Self::layer`], but tried once.
    pub(crate) async fn layer_once<T: Send + 'static>(
        &self,
        layer: &Descriptor,
        work: impl FnOnce(&mut dyn Read) -> Result<T, LayerError> + Send + 'static,
    ) -> Result<Result<T, LayerError>, FetchError> {
        let blob = self.blob(&layer.digest).await?;
        unpack::with_layer(blob, layer, self.grace, work).await
    }

    /// Lets `work` read a layer. It is called again where the layer did not arrive whole; what it made of a layer is
    /// given only if the layer was the right one.
    pub async fn layer<T: Send + 'static>(
        &self,
        layer: &Descriptor,
        work: impl Fn(&mut dyn Read) -> Result<T, LayerError> + Clone + Send + 'static,
    ) -> Result<Result<T, LayerError>, FetchError> {
        self.retrying(|| self.layer_once(layer, work.clone())).await
    }

    async fn blob(&self, digest: &Digest) -> Result<Blob, FetchError> {
        match &self.place {
            Place::Registry(registry) => registry.blob(digest).await,
            Place::Layout(layout) => layout.blob(digest).await,
        }
    }

    /// A blob from a byte on, and from which byte on it really is: not everybody can begin in the middle.
    pub(crate) async fn blob_from(&self, digest: &Digest, from: u64) -> Result<(Blob, u64), FetchError> {
        match &self.place {
            Place::Registry(registry) => registry.blob_from(digest, from).await,
            Place::Layout(layout) => Ok((layout.blob_from(digest, from).await?, from)),
        }
    }

    /// Tries again what may go better the next time, with pauses.
    pub(crate) async fn retrying<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, FetchError>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        retry::retrying(self.retries, &self.counters, attempt).await
    }
}
