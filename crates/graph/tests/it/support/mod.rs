//! A scraper over sources that a test set up, and what came of its looks.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses a part of it, and stops at a surprise"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use graph::current::{Current, Snapshot, State};
use graph::scrape::{Outcome, ScrapeError, Scraper};
use graph::settings::{Settings, SourceSettings};
use graph::source::cache::Cache;
use testkit::flaky_proxy::Asked;
use testkit::registry::Scratch;

pub struct World {
    pub scratch: Scratch,
    pub settings: Settings,
    pub current: Current,
    scraper: Option<Scraper>,
}

pub fn source(address: String) -> SourceSettings {
    SourceSettings {
        address,
        payload_repository: None,
        credentials: None,
        ca_file: None,
        proxy: None,
        tags: None,
        metadata_path: None,
    }
}

impl World {
    pub fn new(sources: Vec<SourceSettings>) -> Self {
        let scratch = Scratch::new("graph");
        let mut settings = Settings { sources, cache_dir: scratch.join("cache"), ..Settings::default() };
        settings.limits.retries = 2;
        Self { scratch, settings, current: Current::default(), scraper: None }
    }

    pub fn of(address: String) -> Self {
        Self::new(vec![source(address)])
    }

    /// The scraper goes, as with the process that it is in; what is on disk stays.
    pub fn restart(&mut self) {
        self.scraper = None;
        self.current = Current::default();
    }

    pub fn scraper(&mut self) -> &mut Scraper {
        self.scraper.get_or_insert_with(|| {
            let cache = Arc::new(Cache::open(&self.settings.cache_dir));
            Scraper::new(&self.settings, None, cache, self.current.clone()).unwrap()
        })
    }

    pub fn take_scraper(&mut self) -> Scraper {
        self.scraper();
        self.scraper.take().unwrap()
    }

    pub async fn scrape(&mut self) -> Result<Outcome, ScrapeError> {
        self.scraper().scrape().await
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        match &*self.current.load() {
            State::Graph { snapshot, .. } => Arc::clone(snapshot),
            State::Nothing { reason } => panic!("no graph: {reason}"),
        }
    }

    /// Names and payloads.
    pub fn releases(&self) -> BTreeMap<String, String> {
        let snapshot = self.snapshot();
        let nodes = snapshot.graph.nodes().iter();
        nodes.map(|node| (node.name.to_string(), node.payload.clone())).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.releases().into_keys().collect()
    }

    /// Those that are about sources: code and line.
    pub fn notes(&self) -> Vec<(&'static str, String)> {
        let snapshot = self.snapshot();
        let about_sources = ["fetch-failed", "not-a-release", "bad-release", "bad-node", "bad-edge"];
        let notes = snapshot.notes.iter().filter(|note| about_sources.contains(&note.code));
        notes.map(|note| (note.code, note.to_string())).collect()
    }
}

/// How often what was asked: tag lists, HEADs, GETs of manifests, GETs of blobs.
pub fn counted(log: &[Asked]) -> (usize, usize, usize, usize) {
    let count = |method: &str, part: &str| {
        log.iter().filter(|asked| asked.method == method && asked.path.contains(part)).count()
    };
    (count("GET", "/tags/list"), count("HEAD", ""), count("GET", "/manifests/"), count("GET", "/blobs/"))
}
