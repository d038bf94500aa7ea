//! What is counted. Plain counters, because they are on the way of every request; the text format is written by hand,
//! because a registry with labels would be another look-up per request.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::StatusCode;
use logic::graph::note::Severity;

use super::ready::Ready;
use crate::current::{Current, State};

/// The statuses that are answered with; anything else is counted under 500.
const STATUSES: [u16; 14] = [200, 204, 304, 400, 404, 405, 406, 408, 421, 431, 502, 503, 504, 500];

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn take(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

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
}

impl Metrics {
    pub fn answered(&self, status: StatusCode) {
        // The first ones are nearly all there are.
        let at = STATUSES.iter().position(|&known| known == status.as_u16());
        self.requests[at.unwrap_or(STATUSES.len() - 1)].add();
    }

    pub fn render(&self, current: &Current, ready: &Ready) -> String {
        let mut page = Page::default();
        page.head("requests_total", "counter", "Requests answered, by status.");
        for (status, counter) in STATUSES.iter().zip(&self.requests) {
            page.line("requests_total", &format!("{{status=\"{status}\"}}"), counter.get());
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
            page.line(name, "", value);
        }
        self.graph(&mut page, current);
        page.0
    }

    fn graph(&self, page: &mut Page, current: &Current) {
        let (published, failed) = current.looks();
        page.head("scrapes_total", "counter", "Looks at the sources, by how they ended.");
        page.line("scrapes_total", "{result=\"ok\"}", published);
        page.line("scrapes_total", "{result=\"failed\"}", failed);
        let state = current.load();
        let (snapshot, stale) = match &*state {
            State::Nothing { .. } => (None, false),
            State::Graph { snapshot, stale } => (Some(snapshot), stale.is_some()),
        };
        page.head("ready", "gauge", "Whether there is a graph to serve.");
        page.line("ready", "", u64::from(snapshot.is_some()));
        page.head("stale", "gauge", "Whether the graph could not be brought up to date.");
        page.line("stale", "", u64::from(stale));
        let Some(snapshot) = snapshot else { return };
        let age = snapshot.confirmed.elapsed();
        page.head("age_seconds", "gauge", "Since the graph was last seen to be up to date.");
        page.line("age_seconds", "", age.as_secs());
        page.head("nodes", "gauge", "Releases in the graph.");
        page.line("nodes", "", snapshot.graph.nodes().len() as u64);
        let (plain, conditional) = snapshot.graph.edge_count();
        page.head("edges", "gauge", "Edges in the graph, by kind.");
        page.line("edges", "{kind=\"plain\"}", plain as u64);
        page.line("edges", "{kind=\"conditional\"}", conditional as u64);
        page.head("notes", "gauge", "What was found wrong, by severity.");
        for (severity, name) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
            let count = snapshot.notes.iter().filter(|note| note.severity == severity).count();
            page.line("notes", &format!("{{severity=\"{name}\"}}"), count as u64);
        }
    }
}

/// The text format, with the service's name before each metric.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string can't fail.
        let _ = writeln!(self.0, "# HELP holdfast_graph_{name} {help}\n# TYPE holdfast_graph_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "holdfast_graph_{name}{labels} {value}");
    }
}
