//! One source as it is configured, whatever its kind.

use std::sync::Arc;
use std::time::Instant;

use oci::address::{AddressError, host_of};
use oci::counters::add;
use oci::path::{ImagePath, PathError};
use oci::repository::Repository;
use oci::{Access, FetchError};
use regex::Regex;

use super::address::Address;
use super::cache::Cache;
use super::counters::{ScrapeCounters, set};
use super::image::Rules;
use super::metadata::DEFAULT_PATH;
use super::ready::Ready;
use super::tagged::{Look, Tagged};
use crate::settings::{Limits, SourceSettings};

/// What is wrong with how a source is configured.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error("source {address}: the pattern for tags")]
    Pattern { address: String, source: regex::Error },
    #[error("source {address}: {key} is for images, and its payloads come ready-made")]
    ReadyMade { address: String, key: &'static str },
    #[error("source {address}: the path of the metadata")]
    Path { address: String, source: PathError },
}

pub(crate) struct Source {
    address: Address,
    access: Access,
    limits: Limits,
    index: usize,
    tagged: Tagged,
    /// Made at the first look, and again after a look that failed: files with credentials and authorities may change.
    open: Option<Open>,
    pub(crate) counters: Arc<ScrapeCounters>,
}

enum Open {
    Images(Arc<Repository>),
    Ready(Ready),
}

impl Source {
    pub(crate) fn new(index: usize, settings: &SourceSettings, limits: &Limits) -> Result<Self, SourceError> {
        let address: Address = settings.address.parse()?;
        let shown = address.to_string();
        if matches!(address, Address::GraphFile(_) | Address::GraphUrl(_)) {
            let given = [
                ("payload-repository", settings.payload_repository.is_some()),
                ("tags", settings.tags.is_some()),
                ("metadata-path", settings.metadata_path.is_some()),
            ];
            if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
                return Err(SourceError::ReadyMade { address: shown, key });
            }
        }
        let filter = match settings.tags.as_deref().map(Regex::new) {
            Some(Ok(filter)) => Some(filter),
            Some(Err(source)) => return Err(SourceError::Pattern { address: shown, source }),
            None => None,
        };
        let path = ImagePath::parse(settings.metadata_path.as_deref().unwrap_or(DEFAULT_PATH))
            .map_err(|source| SourceError::Path { address: shown.clone(), source })?;
        let own = || match &address {
            Address::Registry { base, repository } => format!("{}/{repository}", host_of(base)),
            // Payloads are read elsewhere, by whoever works in another directory.
            Address::Layout(directory) => {
                let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
                format!("oci:{}", absolute.display())
            }
            other => other.to_string(),
        };
        let tagged = Tagged {
            index,
            payload_repository: settings.payload_repository.clone().unwrap_or_else(own),
            address: shown,
            filter,
            rules: Rules::new(path, limits),
            at_once: limits.fetches_at_once,
        };
        let (access, limits) = (settings.into(), limits.clone());
        Ok(Self { address, access, limits, index, tagged, open: None, counters: Arc::default() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.tagged.address
    }

    pub(crate) async fn look(&mut self, cache: &Arc<Cache>) -> Result<Look, Arc<FetchError>> {
        let start = Instant::now();
        let look = self.look_uncounted(cache).await;
        let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        set(&self.counters.last_duration_millis, millis);
        add(&self.counters.scrapes, 1);
        match &look {
            Ok(look) => {
                set(&self.counters.last_tags, look.tags as u64);
                set(&self.counters.last_releases, look.harvest.releases.len() as u64);
            }
            Err(_) => {
                add(&self.counters.failures, 1);
                self.open = None;
            }
        }
        look
    }

    async fn look_uncounted(&mut self, cache: &Arc<Cache>) -> Result<Look, Arc<FetchError>> {
        if self.open.is_none() {
            self.open = Some(self.opened().await?);
        }
        match &mut self.open {
            Some(Open::Images(repository)) => self.tagged.look(repository, cache).await,
            Some(Open::Ready(ready)) => {
                let harvest = ready.look().await?;
                Ok(Look { tags: harvest.releases.len(), harvest, seen: Default::default() })
            }
            None => Err(Arc::new(FetchError::Interrupted)),
        }
    }

    async fn opened(&self) -> Result<Open, FetchError> {
        let (index, limits, fetches) = (self.index, &self.limits, Arc::clone(&self.counters.fetches));
        let repository = match &self.address {
            Address::GraphFile(path) => return Ok(Open::Ready(Ready::file(index, path.clone(), limits))),
            Address::GraphUrl(url) => {
                let ready = Ready::service(index, url.clone(), &self.access, limits, fetches)?;
                return Ok(Open::Ready(ready));
            }
            Address::Layout(directory) => {
                Repository::in_layout(directory.clone(), &limits.of_images(), fetches)
            }
            Address::Registry { base, repository } => {
                let (base, repository, access) = (base.clone(), repository.clone(), self.access.clone());
                Repository::in_registry(base, repository, access, &limits.of_images(), fetches).await?
            }
        };
        Ok(Open::Images(Arc::new(repository)))
    }
}
