//! What is served right now. A new graph is written out and its busiest answers are made before it takes over, away
//! from the threads that serve, so that no request waits for it.

use std::sync::Arc;
use std::time::Instant;

use hyper::header::HeaderValue;
use tokio::sync::oneshot;

use super::answers::Answers;
use super::reply::header_text;
use super::site::Site;
use crate::current::State;

#[derive(Debug)]
pub enum Ready {
    Nothing {
        reason: String,
    },
    Graph {
        answers: Arc<Answers>,
        confirmed: Instant,
        /// Why it could not be brought up to date, as it stands in a header.
        stale: Option<HeaderValue>,
    },
}

impl Ready {
    pub fn cache_bytes(&self) -> usize {
        match self {
            Self::Nothing { .. } => 0,
            Self::Graph { answers, .. } => answers.bytes(),
        }
    }
}

/// How much less of a processor the making of answers gets than the serving of them.
const NICE: i32 = 5;

/// Brings what is served up to date with the graph and the configuration in force.
pub async fn refresh(site: &Arc<Site>) {
    let _one_at_a_time = site.refreshing.lock().await;
    let state = site.current.load();
    let (snapshot, stale) = match &*state {
        State::Nothing { reason } => {
            site.ready.store(Arc::new(Ready::Nothing { reason: reason.clone() }));
            return;
        }
        State::Graph { snapshot, stale } => (Arc::clone(snapshot), stale.as_deref().map(header_text)),
    };
    let confirmed = snapshot.confirmed.get();
    let before = site.ready.load_full();
    let before = match &*before {
        Ready::Graph { answers, .. } => Some(Arc::clone(answers)),
        Ready::Nothing { .. } => None,
    };
    let live = site.live.load_full();
    let made = aside(move || {
        let before = match before {
            Some(before) if before.still_hold(&snapshot, &live.owners, &live.settings) => {
                return (before, false);
            }
            before => before,
        };
        let answers = Answers::new(snapshot, Arc::clone(&live.owners), &live.settings);
        if let Some(before) = before {
            answers.warm(&before, std::thread::yield_now);
        }
        (Arc::new(answers), true)
    });
    let Some((answers, new)) = made.await else {
        tracing::error!("the answers of a new graph could not be made; the old one is served on");
        return;
    };
    if new {
        site.metrics.graph_changes.add();
    }
    site.ready.store(Arc::new(Ready::Graph { answers, confirmed, stale }));
}

/// Runs something that takes a while on a thread of its own that gives way to others.
pub async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    let thread = std::thread::Builder::new().name("graph-maker".to_owned()).spawn(move || {
        // On Linux this is the priority of the thread alone. Without it, all still works.
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = sender.send(work());
    });
    thread.ok()?;
    receiver.await.ok()
}
