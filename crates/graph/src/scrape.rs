//! Looks at all sources and at graph data, again and again, and puts the graph that follows into force.
//!
//! A look is whole or it is nothing: if one source or the graph data cannot be looked at, the last good graph stays,
//! with the reason why it is not newer. What is decided about releases is decided in `logic::graph`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logic::graph::note::Severity;
use logic::graph::{GraphData, Harvest, Notes, build};
use oci::counters::add;
use oci::{FetchError, chain};
use tokio::sync::Notify;

use crate::current::{Current, Snapshot};
use crate::settings::Settings;
use crate::source::cache::Cache;
use crate::source::counters::{ScrapeCounters, set};
use crate::source::one::{Source, SourceError};

/// After a failure the next look comes sooner, and then later and later, up to the interval.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Whoever asks for less asks for a registry that locks them out.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Of a new graph; all of them are what `holdfast graph build` prints.
const NOTES_LOGGED: usize = 100;

/// Graph data, wherever it comes from.
pub trait DataSource: Send {
    /// As it is now. `Err` fails the whole look; a mistake in one file belongs in the notes instead.
    fn load(&mut self) -> BoxFuture<'_, Result<Loaded, DataError>>;
}

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type DataError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
pub struct Loaded {
    pub data: Arc<GraphData>,
    pub notes: Notes,
    /// Differs whenever the data does: a commit, a digest.
    pub revision: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    #[error("{source_name} could not be read")]
    Source { source_name: String, source: Arc<FetchError> },
    #[error("the graph data could not be read")]
    Data(#[source] DataError),
    #[error("building the graph was interrupted")]
    Interrupted,
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A graph was built and is in force.
    Published,
    /// All is as it was; the graph in force is confirmed.
    Unchanged,
}

pub struct Scraper {
    sources: Vec<Source>,
    data: Option<Box<dyn DataSource>>,
    cache: Arc<Cache>,
    current: Current,
    interval: Duration,
    /// Of the inputs of the graph in force.
    fingerprint: Option<blake3::Hash>,
    again: Arc<Notify>,
    counters: Arc<ScrapeCounters>,
}

impl Scraper {
    /// `cache`: [`Cache::open`] of `settings.cache_dir`; whoever replaces a scraper hands its cache on.
    pub fn new(
        settings: &Settings,
        data: Option<Box<dyn DataSource>>,
        cache: Arc<Cache>,
        current: Current,
    ) -> Result<Self, SourceError> {
        let source = |(index, source)| Source::new(index, source, &settings.limits);
        Ok(Self {
            sources: settings.sources.iter().enumerate().map(source).collect::<Result<_, _>>()?,
            data,
            cache,
            current,
            interval: settings.interval.get().max(SHORTEST_INTERVAL),
            fingerprint: None,
            again: Arc::default(),
            counters: Arc::default(),
        })
    }

    /// Whoever notifies it makes the next look come at once.
    pub fn again(&self) -> Arc<Notify> {
        Arc::clone(&self.again)
    }

    /// Of each source, by its address.
    pub fn source_counters(&self) -> Vec<(String, Arc<ScrapeCounters>)> {
        self.sources.iter().map(|source| (source.name().to_owned(), Arc::clone(&source.counters))).collect()
    }

    /// Of whole looks: `scrapes`, `failures`, `last_duration_millis`, `last_releases`.
    pub fn counters(&self) -> Arc<ScrapeCounters> {
        Arc::clone(&self.counters)
    }

    /// Looks until `shutdown`.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let again = self.again();
        let mut pause = FIRST_PAUSE;
        loop {
            let look = tokio::select! {
                look = self.scrape() => look,
                () = &mut shutdown => return,
            };
            let wait = match look {
                Ok(_) => {
                    pause = FIRST_PAUSE;
                    self.interval
                }
                Err(error) => {
                    tracing::error!(error = %chain(&error), "looking at the sources failed");
                    let wait = pause.min(self.interval);
                    pause = pause.saturating_mul(2);
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = again.notified() => {}
                () = &mut shutdown => return,
            }
        }
    }

    /// One look. A failure is told to `current` as well.
    pub async fn scrape(&mut self) -> Result<Outcome, ScrapeError> {
        let start = Instant::now();
        let look = self.look().await;
        set(
            &self.counters.last_duration_millis,
            u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
        );
        add(&self.counters.scrapes, 1);
        if let Err(error) = &look {
            add(&self.counters.failures, 1);
            self.current.failed(chain(error));
        }
        look
    }

    async fn look(&mut self) -> Result<Outcome, ScrapeError> {
        let loaded = match &mut self.data {
            Some(data) => data.load().await.map_err(ScrapeError::Data)?,
            None => Loaded { data: Arc::default(), notes: Notes::default(), revision: String::new() },
        };
        // When the first of the inputs was looked at: a graph is as old as its oldest input.
        let confirmed = Instant::now();
        let mut harvest = Harvest::default();
        let mut seen = HashSet::new();
        // One after another: two sources may have the same images, which are then fetched once.
        for source in &mut self.sources {
            let look = source.look(&self.cache).await;
            let look = look.map_err(|error| ScrapeError::Source {
                source_name: source.name().to_owned(),
                source: error,
            })?;
            seen.extend(look.seen);
            harvest.releases.extend(look.harvest.releases);
            harvest.edges.extend(look.harvest.edges);
            harvest.conditional.extend(look.harvest.conditional);
            harvest.notes.extend(look.harvest.notes);
        }
        harvest.notes.sort();
        set(&self.counters.last_releases, harvest.releases.len() as u64);
        let (cache, Loaded { data, notes, revision }) = (Arc::clone(&self.cache), loaded);
        let fingerprint = fingerprint(&harvest, &notes, &revision);
        let unchanged = self.fingerprint == Some(fingerprint);
        let work = move || {
            cache.retain(&seen);
            (!unchanged).then(|| {
                let (graph, mut all) = build(harvest, &data);
                all.extend(notes);
                all.sort();
                (graph, all)
            })
        };
        let built = tokio::task::spawn_blocking(work).await.map_err(|_| ScrapeError::Interrupted)?;
        let Some((graph, notes)) = built else {
            self.current.confirm(confirmed);
            return Ok(Outcome::Unchanged);
        };
        tracing::info!(releases = graph.nodes().len(), notes = notes.len(), "a new graph is in force");
        for note in notes.iter().take(NOTES_LOGGED) {
            match note.severity {
                Severity::Error => tracing::warn!(place = %note.place, code = note.code, "{}", note.text),
                Severity::Warning => tracing::info!(place = %note.place, code = note.code, "{}", note.text),
            }
        }
        self.current.publish(Snapshot { graph, notes, confirmed: confirmed.into() });
        self.fingerprint = Some(fingerprint);
        Ok(Outcome::Published)
    }
}

/// Of all that a graph is built from. By way of `Debug`, which leaves nothing out and orders maps.
fn fingerprint(harvest: &Harvest, notes: &Notes, revision: &str) -> blake3::Hash {
    struct Sink(blake3::Hasher);
    impl std::fmt::Write for Sink {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut sink = Sink(blake3::Hasher::new());
    // The sink takes everything.
    let _ = write!(sink, "{harvest:?} {notes:?} {revision:?}");
    sink.0.finalize()
}
