//! Whose a client is: a file, and a service that is asked for ids that the file does not name. When nobody can say, the
//! plain graph is served; a customer's hotfix may wait, an update may not.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use logic::graph::Owners;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::error::Error;
use super::http::{self, FetchError};
use super::metrics::Metrics;
use crate::settings::OwnerSettings;

/// Of the owners file.
const FILE_BYTES: u64 = 16 << 20;
/// Of what a lookup answers.
const ANSWER_BYTES: u64 = 64 << 10;
/// Lookups under way; clients beyond that get the plain graph at once.
const AT_ONCE: usize = 256;
/// How long a failed lookup is not tried again for the same id.
const FAILURE: Duration = Duration::from_secs(5);

/// The rules of the file; none without a file.
pub fn read(settings: &OwnerSettings) -> Result<Owners, Error> {
    let Some(path) = &settings.file else { return Ok(Owners::default()) };
    let read = |source| Error::Read { path: path.clone(), source };
    if std::fs::metadata(path).map_err(read)?.len() > FILE_BYTES {
        return Err(Error::TooLarge { path: path.clone(), limit: FILE_BYTES });
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    toml::from_str(&text).map_err(|source| Error::Owners { path: path.clone(), source: Box::new(source) })
}

/// By which a change of a file is noticed.
pub fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// What is known about an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Known(Arc<str>),
    None,
    /// Nobody could say.
    Failed,
}

impl Owner {
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Known(name) => Some(name),
            Self::None | Self::Failed => None,
        }
    }
}

#[derive(Debug)]
pub struct Lookup {
    client: Client,
    url: String,
    headers: HeaderMap,
    keep: Duration,
    permits: Semaphore,
    cache: Mutex<Cache>,
}

#[derive(Deserialize)]
struct Answered {
    owner: Option<String>,
}

impl Lookup {
    /// None where no service is to be asked.
    pub fn new(settings: &OwnerSettings) -> Result<Option<Self>, Error> {
        let Some(url) = &settings.lookup_url else { return Ok(None) };
        http::address("owners.lookup-url", &url.replace("{id}", "x"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.lookup_headers {
            let bad = || Error::Header { name: name.clone() };
            let mut secret = HeaderValue::from_str(value).map_err(|_| bad())?;
            secret.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, secret);
        }
        Ok(Some(Self {
            client: http::client(settings.lookup_timeout.get())?,
            url: url.clone(),
            headers,
            keep: settings.lookup_cache.get(),
            permits: Semaphore::new(AT_ONCE),
            cache: Mutex::new(Cache { limit: settings.lookup_cache_entries.max(1), ..Cache::default() }),
        }))
    }

    /// What is remembered, without asking anybody.
    pub fn remembered(&self, id: &str) -> Option<Owner> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(id)
    }

    pub async fn ask(&self, id: &str, metrics: &Metrics) -> Owner {
        metrics.owner_lookups.add();
        let (owner, keep) = match self.fetch(id).await {
            Ok(owner) => (owner, self.keep),
            Err(error) => {
                metrics.owner_lookup_failures.add();
                tracing::warn!(cause = error.chain(), "owner lookup failed; the plain graph is served");
                (Owner::Failed, FAILURE.min(self.keep))
            }
        };
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(id, owner.clone(), Instant::now() + keep);
        owner
    }

    async fn fetch(&self, id: &str) -> Result<Owner, FetchError> {
        let _permit = self.permits.try_acquire().map_err(|_| FetchError::Busy)?;
        let url = self.url.replace("{id}", &escape(id));
        let response = self.client.get(url).headers(self.headers.clone()).send().await?;
        match response.status() {
            StatusCode::NOT_FOUND => Ok(Owner::None),
            status if status.is_success() => {
                let body = http::body(response, ANSWER_BYTES).await?;
                let answered: Answered = serde_json::from_slice(&body)?;
                Ok(answered.owner.map_or(Owner::None, |owner| Owner::Known(owner.into())))
            }
            status => Err(FetchError::Status(status)),
        }
    }
}

/// An id may hold anything; in an address it is one piece of it.
fn escape(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => text.push(char::from(byte)),
            // A dot alone would climb.
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The oldest go first: an entry is only good for a while anyway.
#[derive(Debug, Default)]
struct Cache {
    limit: usize,
    known: HashMap<Arc<str>, (Owner, Instant)>,
    order: VecDeque<Arc<str>>,
}

impl Cache {
    fn get(&self, id: &str) -> Option<Owner> {
        let (owner, until) = self.known.get(id)?;
        (Instant::now() < *until).then(|| owner.clone())
    }

    fn put(&mut self, id: &str, owner: Owner, until: Instant) {
        if let Some(entry) = self.known.get_mut(id) {
            *entry = (owner, until);
            return;
        }
        while self.known.len() >= self.limit {
            let Some(oldest) = self.order.pop_front() else { break };
            self.known.remove(&oldest);
        }
        let id: Arc<str> = id.into();
        self.order.push_back(Arc::clone(&id));
        self.known.insert(id, (owner, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_can_not_leave_its_place_in_the_address() {
        assert_eq!(escape("../a b?c#d/é"), "%2E%2E%2Fa%20b%3Fc%23d%2F%C3%A9");
    }

    #[test]
    fn no_more_ids_are_remembered_than_allowed() {
        let mut cache = Cache { limit: 3, ..Cache::default() };
        let until = Instant::now() + Duration::from_secs(60);
        for id in 0..10 {
            cache.put(&id.to_string(), Owner::None, until);
            cache.put(&id.to_string(), Owner::Failed, until);
        }
        assert_eq!((cache.known.len(), cache.order.len()), (3, 3));
        assert_eq!((cache.get("9"), cache.get("0")), (Some(Owner::Failed), None));
        cache.put("9", Owner::None, Instant::now());
        assert_eq!(cache.get("9"), None);
    }
}
