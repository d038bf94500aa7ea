//! The graph in force: made by the scraper, read by the service, swapped as a whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use logic::graph::{Graph, Notes};
use tokio::sync::watch;

/// One graph, as it was built.
#[derive(Debug)]
pub struct Snapshot {
    pub graph: Graph,
    pub notes: Notes,
    /// When all of its inputs were last seen to be as they are here.
    pub confirmed: Confirmed,
}

/// An instant that moves on while the graph stays: a look that finds nothing new must not cost the answers that are
/// kept ready for the graph.
#[derive(Debug)]
pub struct Confirmed(Mutex<Instant>);

impl Confirmed {
    pub fn get(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn elapsed(&self) -> Duration {
        self.get().elapsed()
    }

    fn renew(&self, at: Instant) {
        let mut instant = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *instant = at.max(*instant);
    }
}

impl From<Instant> for Confirmed {
    fn from(at: Instant) -> Self {
        Self(Mutex::new(at))
    }
}

/// What there is to serve.
#[derive(Debug, Clone)]
pub enum State {
    /// Nothing yet, and why.
    Nothing { reason: String },
    Graph {
        snapshot: Arc<Snapshot>,
        /// Why it could not be brought up to date, if it could not.
        stale: Option<String>,
    },
}

/// Shared by whoever makes graphs and whoever serves them.
#[derive(Debug, Clone)]
pub struct Current(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: ArcSwap<State>,
    changes: watch::Sender<()>,
    published: AtomicU64,
    failed: AtomicU64,
}

impl Default for Current {
    fn default() -> Self {
        let reason = "the first look at the sources is not done yet".to_owned();
        Self(Arc::new(Shared {
            state: ArcSwap::from_pointee(State::Nothing { reason }),
            changes: watch::Sender::new(()),
            published: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }))
    }
}

impl Current {
    pub fn load(&self) -> Arc<State> {
        self.0.state.load_full()
    }

    /// Wakes whenever there is something new to load.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// How many looks at the sources gave a graph, and how many failed.
    pub fn looks(&self) -> (u64, u64) {
        (self.0.published.load(Ordering::Relaxed), self.0.failed.load(Ordering::Relaxed))
    }

    pub fn publish(&self, snapshot: Snapshot) {
        self.0.published.fetch_add(1, Ordering::Relaxed);
        self.store(State::Graph { snapshot: Arc::new(snapshot), stale: None });
    }

    /// All inputs were seen to be as they were: the graph stays, and is as new as `at`.
    pub fn confirm(&self, at: Instant) {
        if let State::Graph { snapshot, stale } = &*self.load() {
            snapshot.confirmed.renew(at);
            if stale.is_some() {
                self.store(State::Graph { snapshot: Arc::clone(snapshot), stale: None });
            }
        }
    }

    /// A look at the sources failed: what was there before is served on.
    pub fn failed(&self, reason: String) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        let next = match &*self.load() {
            State::Nothing { .. } => State::Nothing { reason },
            State::Graph { snapshot, .. } => {
                State::Graph { snapshot: Arc::clone(snapshot), stale: Some(reason) }
            }
        };
        self.store(next);
    }

    fn store(&self, state: State) {
        self.0.state.store(Arc::new(state));
        self.0.changes.send_replace(());
    }
}
