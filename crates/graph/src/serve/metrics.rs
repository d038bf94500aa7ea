//! What is counted. Plain counters, because they are on the way of every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hyper::StatusCode;
use logic::graph::note::Severity;
use service::{Counter, Page};

use super::ready::Ready;
use crate::current::{Current, State};
use crate::source::counters::ScrapeCounters;

/// The statuses that are answered with; anything else is counted under 500.
const STATUSES: [u16; 14] = [200, 204, 304, 400, 404, 405, 406, 408, 421, 431, 502, 503, 504, 500];

#[derive(Debug, Default)]
pub struct Metrics {
    requests: [Counter; STATUSES.len()],
    pub cache_hits: Counter,
    pub cache_misses: Counter,
    /// Answers that were made from a graph that could not be brought up to date.
    pub stale_answers: Counter,
    pub owner_lookups: Counter,
    pub owner_lookup_failures: Counter,
    pub upstream_fetches: Counter,
    pub upstream_failures: Counter,
    pub connections: Counter,
    pub connections_accepted: Counter,
    pub connections_idle_closed: Counter,
    pub handshake_failures: Counter,
    pub graph_changes: Counter,
    pub reloads: Counter,
    pub reload_failures: Counter,
    /// What each source cost, by its address.
    pub sources: ArcSwap<Vec<(String, Arc<ScrapeCounters>)>>,
}

impl Metrics {
    pub fn answered(&self, status: StatusCode) {
        // The first ones are nearly all there are.
        let at = STATUSES.iter().position(|&known| known == status.as_u16());
        self.requests[at.unwrap_or(STATUSES.len() - 1)].add();
    }

    pub fn render(&self, current: &Current, ready: &Ready) -> String {
        let mut page = Page::new("holdfast_graph");
        page.head("requests_total", "counter", "Requests answered, by status.");
        for (status, counter) in STATUSES.iter().zip(&self.requests) {
            page.line("requests_total", &[("status", &status.to_string())], counter.get());
        }
        for (name, kind, help, value) in [
            ("answer_cache_hits_total", "counter", "Answers that were ready.", self.cache_hits.get()),
            ("answer_cache_misses_total", "counter", "Answers that had to be made.", self.cache_misses.get()),
            ("answer_cache_bytes", "gauge", "Bytes of answers that are ready.", ready.cache_bytes() as u64),
            ("stale_answers_total", "counter", "Answers from an old graph.", self.stale_answers.get()),
            ("owner_lookups_total", "counter", "Owners asked for over HTTP.", self.owner_lookups.get()),
            (
                "owner_lookup_failures_total",
                "counter",
                "Lookups that failed; the plain graph was served.",
                self.owner_lookup_failures.get(),
            ),
            ("upstream_fetches_total", "counter", "Requests to upstream.", self.upstream_fetches.get()),
            ("upstream_failures_total", "counter", "Those that failed.", self.upstream_failures.get()),
            ("connections", "gauge", "Connections that are open.", self.connections.get()),
            ("connections_total", "counter", "Connections accepted.", self.connections_accepted.get()),
            (
                "connections_idle_closed_total",
                "counter",
                "Connections closed because nothing was answered on them for too long.",
                self.connections_idle_closed.get(),
            ),
            ("tls_handshake_failures_total", "counter", "Handshakes failed.", self.handshake_failures.get()),
            ("graph_changes_total", "counter", "Graphs put into service.", self.graph_changes.get()),
            ("reloads_total", "counter", "Configurations taken over.", self.reloads.get()),
            ("reload_failures_total", "counter", "Configurations refused.", self.reload_failures.get()),
        ] {
            page.head(name, kind, help);
            page.line(name, &[], value);
        }
        self.graph(&mut page, current);
        self.sources(&mut page);
        page.finish()
    }

    fn sources(&self, page: &mut Page) {
        type Read = fn(&ScrapeCounters) -> &AtomicU64;
        let columns: [(&str, &str, &str, Read); 8] = [
            ("source_looks_total", "counter", "Looks at a source.", |source| &source.scrapes),
            ("source_failures_total", "counter", "Those that failed.", |source| &source.failures),
            ("source_tags", "gauge", "Tags at the last look.", |source| &source.last_tags),
            ("source_releases", "gauge", "Releases at the last look.", |source| &source.last_releases),
            ("source_head_requests_total", "counter", "HEAD requests.", |source| &source.fetches.heads),
            ("source_get_requests_total", "counter", "GET requests.", |source| &source.fetches.gets),
            ("source_bytes_total", "counter", "Bytes fetched.", |source| &source.fetches.bytes),
            ("source_retries_total", "counter", "Requests that were tried again.", |source| {
                &source.fetches.retries
            }),
        ];
        let sources = self.sources.load();
        for (name, kind, help, read) in columns.iter().filter(|_| !sources.is_empty()) {
            page.head(name, kind, help);
            for (address, counters) in sources.iter() {
                let value = read(counters).load(Ordering::Relaxed);
                page.line(name, &[("source", address)], value);
            }
        }
    }

    fn graph(&self, page: &mut Page, current: &Current) {
        let (published, failed) = current.looks();
        page.head("scrapes_total", "counter", "Looks at the sources, by how they ended.");
        page.line("scrapes_total", &[("result", "ok")], published);
        page.line("scrapes_total", &[("result", "failed")], failed);
        let state = current.load();
        let (snapshot, stale) = match &*state {
            State::Nothing { .. } => (None, false),
            State::Graph { snapshot, stale } => (Some(snapshot), stale.is_some()),
        };
        page.head("ready", "gauge", "Whether there is a graph to serve.");
        page.line("ready", &[], u64::from(snapshot.is_some()));
        page.head("stale", "gauge", "Whether the graph could not be brought up to date.");
        page.line("stale", &[], u64::from(stale));
        let Some(snapshot) = snapshot else { return };
        let age = snapshot.confirmed.elapsed();
        page.head("age_seconds", "gauge", "Since the graph was last seen to be up to date.");
        page.line("age_seconds", &[], age.as_secs());
        page.head("nodes", "gauge", "Releases in the graph.");
        page.line("nodes", &[], snapshot.graph.nodes().len() as u64);
        let (plain, conditional) = snapshot.graph.edge_count();
        page.head("edges", "gauge", "Edges in the graph, by kind.");
        page.line("edges", &[("kind", "plain")], plain as u64);
        page.line("edges", &[("kind", "conditional")], conditional as u64);
        page.head("notes", "gauge", "What was found wrong, by severity.");
        for (severity, name) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
            let count = snapshot.notes.iter().filter(|note| note.severity == severity).count();
            page.line("notes", &[("severity", name)], count as u64);
        }
    }
}
