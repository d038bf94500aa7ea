//! A service chained onto another: the other one is asked with all of the client's parameters, whether they mean
//! anything here or not, and what it answers is treated as a source. For the client, the result is what the other
//! service would have told it, less what this one's own graph data and overrides take away.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex as PlainMutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use logic::graph::document::Document;
use logic::graph::{Arch, Ask, GraphData, Owners, ReleaseName, arch_of, build, view};
use reqwest::header::{ACCEPT, CACHE_CONTROL, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use reqwest::{Client, StatusCode, Url};
use semver::Version;
use tokio::sync::Mutex;

use super::answer::{Answer, Fragments, whole};
use super::error::Error;
use super::http::{self, FetchError};
use super::metrics::Metrics;
use super::query::Asked;
use crate::settings::{PayloadForm, Role, Settings};

/// How long an answer is good where upstream does not say, and at most.
const FRESH: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// How long upstream is left alone about something that it just failed to answer.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Parameter strings that are remembered.
const SLOTS: usize = 100_000;
/// What of an error's body is passed on.
const ERROR_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub struct Upstream {
    client: Client,
    url: Url,
    limit: u64,
    role: Role,
    form: PayloadForm,
    default_arch: Option<Arch>,
    slots: PlainMutex<Slots>,
}

/// What is asked of upstream on behalf of a client.
pub struct Question<'a> {
    /// All parameters, in one order.
    pub parameters: String,
    /// None where everybody gets the whole graph.
    pub asked: Option<Asked<'a>>,
    pub owners: &'a Owners,
    pub applying: Vec<u32>,
    pub data: &'a Arc<GraphData>,
}

pub enum Outcome {
    Answer {
        answer: Arc<Answer>,
        /// How old it is and why, where upstream could not be asked again.
        stale: Option<(Duration, String)>,
    },
    /// Upstream says that the client is at fault.
    Refused {
        status: StatusCode,
        body: Bytes,
    },
    Failed(String),
}

/// The lock is held while upstream is asked: one fetch at a time for the same parameters.
type Slot = Arc<Mutex<Option<Kept>>>;

#[derive(Debug)]
struct Kept {
    answer: Arc<Answer>,
    tag: Option<HeaderValue>,
    confirmed: Instant,
    until: Instant,
    /// Why it could not be confirmed again.
    failure: Option<String>,
}

enum Fetched {
    Same(Duration),
    New { body: Bytes, tag: Option<HeaderValue>, fresh: Duration },
    Refused { status: StatusCode, body: Bytes },
}

impl Upstream {
    pub fn new(settings: &Settings) -> Result<Option<Self>, Error> {
        let Some(text) = &settings.upstream else { return Ok(None) };
        let mut url = http::address("upstream", text)?;
        if !url.path().ends_with("/graph") {
            url.set_path(&format!("{}/v1/graph", url.path().trim_end_matches('/')));
        }
        let limits = &settings.limits;
        Ok(Some(Self {
            client: http::client(limits.upstream_timeout.get())?,
            url,
            limit: limits.upstream_bytes,
            role: settings.role,
            form: settings.payload_form,
            default_arch: settings.default_arch.clone(),
            slots: PlainMutex::new(Slots { byte_limit: limits.answer_cache_bytes, ..Slots::default() }),
        }))
    }

    pub async fn ask(&self, question: Question<'_>, metrics: &Metrics) -> Outcome {
        // Rules are part of what an answer depends on.
        let key = format!("{}\n{:?}", question.parameters, question.applying);
        let slot = self.slots().get(&key);
        let mut kept = slot.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| Instant::now() < kept.until) {
            metrics.cache_hits.add();
            return kept.outcome();
        }
        metrics.cache_misses.add();
        metrics.upstream_fetches.add();
        let tag = kept.as_ref().and_then(|kept| kept.tag.clone());
        let failure = match self.fetch(&question.parameters, tag).await {
            Ok(Fetched::Refused { status, body }) => return Outcome::Refused { status, body },
            Ok(Fetched::Same(fresh)) => match kept.as_mut() {
                Some(kept) => return kept.confirm(fresh).outcome(),
                None => FetchError::Status(StatusCode::NOT_MODIFIED),
            },
            Ok(Fetched::New { body, tag, fresh }) => match self.make(body, &question).await {
                Ok(answer) => {
                    let before = kept.as_ref().map_or(0, |kept| kept.answer.bytes());
                    self.slots().weigh((&key, &slot), answer.bytes(), before);
                    let now = Instant::now();
                    let new = Kept {
                        answer: Arc::new(answer),
                        tag,
                        confirmed: now,
                        until: now + fresh,
                        failure: None,
                    };
                    return kept.insert(new).outcome();
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        metrics.upstream_failures.add();
        let failure = failure.chain();
        tracing::warn!(cause = failure, "upstream can't be asked");
        match kept.as_mut() {
            Some(kept) => {
                kept.until = Instant::now() + AFTER_FAILURE;
                kept.failure = Some(failure);
                kept.outcome()
            }
            None => Outcome::Failed(failure),
        }
    }

    async fn fetch(&self, parameters: &str, tag: Option<HeaderValue>) -> Result<Fetched, FetchError> {
        let mut url = self.url.clone();
        // What the address itself asks for comes with it.
        let query = [url.query().unwrap_or_default(), parameters].into_iter().filter(|text| !text.is_empty());
        let query = query.collect::<Vec<_>>().join("&");
        url.set_query(Some(&query));
        let mut request = self.client.get(url).header(ACCEPT, "application/json");
        if let Some(tag) = tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        let response = request.send().await?;
        let fresh = freshness(response.headers());
        match response.status() {
            StatusCode::NOT_MODIFIED => Ok(Fetched::Same(fresh)),
            status if status.is_success() => {
                let tag = response.headers().get(ETAG).cloned();
                Ok(Fetched::New { body: http::body(response, self.limit).await?, tag, fresh })
            }
            status if status.is_client_error() && passes_on(status) => {
                Ok(Fetched::Refused { status, body: http::body(response, ERROR_BYTES).await? })
            }
            status => Err(FetchError::Status(status)),
        }
    }

    /// Away from the threads that serve: upstream may well send a whole graph.
    async fn make(&self, body: Bytes, question: &Question<'_>) -> Result<Answer, FetchError> {
        let (form, role, data) = (self.form, self.role, Arc::clone(question.data));
        let overrides = question.owners.overrides(&question.applying);
        let default_arch = self.default_arch.clone();
        let asked = question.asked.as_ref().map(Wanted::of);
        let made = tokio::task::spawn_blocking(move || {
            let document: Document = serde_json::from_slice(&body)?;
            let (graph, notes) = build(document.harvest(0)?, &data);
            for note in notes.iter().take(20) {
                tracing::debug!(%note, "in an answer of upstream");
            }
            let done = |answer: Answer| {
                answer.compressed();
                Ok(answer)
            };
            let Some(asked) = asked.filter(|_| role == Role::Policy) else {
                return done(whole(&graph, form));
            };
            // Where channels are decided here too, the leaf that upstream chose need not be the one.
            let arch = arch_of(&graph, asked.arch.clone(), default_arch.as_ref());
            let ask = asked.ask(arch.as_ref(), data.channels.is_empty());
            let shown = view(&graph, &ask, &overrides);
            done(Answer::new(Fragments::of(&graph, form).assemble(&shown)))
        });
        made.await.unwrap_or_else(|_| Err(FetchError::Busy))
    }

    /// What answers were made with has changed.
    pub fn forget(&self) {
        let mut slots = self.slots();
        *slots = Slots { byte_limit: slots.byte_limit, ..Slots::default() };
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Errors that are about the client's parameters, and not about how this service asks.
fn passes_on(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY)
}

/// `max-age`, within reason.
fn freshness(headers: &HeaderMap) -> Duration {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut fresh = FRESH.0;
    for directive in lines.flat_map(|line| line.split(',')) {
        match directive.trim().split_once('=').unwrap_or((directive.trim(), "")) {
            ("no-cache" | "no-store", _) => return Duration::ZERO,
            ("max-age", seconds) => {
                fresh = seconds.trim_matches('"').parse().map_or(FRESH.0, Duration::from_secs);
            }
            _ => {}
        }
    }
    fresh.min(FRESH.1)
}

/// What a client asks, for another thread.
struct Wanted {
    version: Version,
    channel: String,
    arch: Option<Arch>,
    whole_channel: bool,
}

impl Wanted {
    fn of(asked: &Asked) -> Self {
        let name = asked.version.as_deref().and_then(|text| ReleaseName::parse(text).ok());
        let named = name.as_ref().and_then(|name| name.arch.clone());
        Self {
            version: name.map_or(Version::new(0, 0, 0), |name| name.version),
            channel: asked.channel.clone().into_owned(),
            arch: asked.arch.as_deref().and_then(|text| Arch::parse(text).ok()).or(named),
            whole_channel: asked.whole_channel,
        }
    }

    fn ask<'a>(&'a self, arch: Option<&'a Arch>, narrowed: bool) -> Ask<'a> {
        Ask {
            version: &self.version,
            channel: &self.channel,
            arch,
            whole_channel: self.whole_channel,
            narrowed,
        }
    }
}

impl Kept {
    fn confirm(&mut self, fresh: Duration) -> &Self {
        let now = Instant::now();
        (self.confirmed, self.until, self.failure) = (now, now + fresh, None);
        self
    }

    fn outcome(&self) -> Outcome {
        let age = Instant::now().saturating_duration_since(self.confirmed);
        let stale = self.failure.clone().map(|why| (age, why));
        Outcome::Answer { answer: Arc::clone(&self.answer), stale }
    }
}

/// The oldest go first when there are too many or they are too large.
#[derive(Debug, Default)]
struct Slots {
    byte_limit: usize,
    bytes: usize,
    known: HashMap<Arc<str>, Slot>,
    order: VecDeque<Arc<str>>,
}

impl Slots {
    fn get(&mut self, key: &str) -> Slot {
        if let Some(slot) = self.known.get(key) {
            return Arc::clone(slot);
        }
        while self.known.len() >= SLOTS || (self.bytes > self.byte_limit && !self.order.is_empty()) {
            self.drop_oldest();
        }
        let key: Arc<str> = key.into();
        let slot = Slot::default();
        self.order.push_back(Arc::clone(&key));
        self.known.insert(key, Arc::clone(&slot));
        slot
    }

    /// What was dropped while it was being filled does not count.
    fn weigh(&mut self, (key, slot): (&str, &Slot), added: usize, gone: usize) {
        if self.known.get(key).is_some_and(|known| Arc::ptr_eq(known, slot)) {
            self.bytes = (self.bytes + added).saturating_sub(gone);
        }
    }

    fn drop_oldest(&mut self) {
        let Some(slot) = self.order.pop_front().and_then(|key| self.known.remove(&key)) else { return };
        let freed = slot.try_lock().ok().and_then(|kept| kept.as_ref().map(|kept| kept.answer.bytes()));
        self.bytes = self.bytes.saturating_sub(freed.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstream_says_how_long_an_answer_is_good() {
        for (line, seconds) in
            [("", 30), ("max-age=5", 5), ("private, max-age=7", 7), ("no-cache", 0), ("max-age=999999", 600)]
        {
            let headers: HeaderMap = [(CACHE_CONTROL, HeaderValue::from_static(line))].into_iter().collect();
            assert_eq!(freshness(&headers).as_secs(), seconds, "{line}");
        }
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let mut slots = Slots { byte_limit: 100, ..Slots::default() };
        for number in 0..10 {
            let slot = slots.get(&number.to_string());
            slots.weigh((&number.to_string(), &slot), 60, 0);
        }
        assert!(slots.known.len() <= 10 && slots.known.len() == slots.order.len());
    }
}
