//! Keeps StorageStates true and asks for migrations: the executor of `logic::storage::next`. It looks at everything twice
//! a period, and at single resources whenever something is told of them; what it finds decides, not what was told.

mod carry_out;
mod links;
mod pass;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::watcher::Event;
use kubernetes::connect::Cluster;
use logic::storage::{Definitions, Resource, Rhythm};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::error::Error;
use crate::metrics::Metrics;
use crate::servers::Servers;
use crate::watch::{CustomResourceDefinition, Told};
pub use carry_out::Standing;
use carry_out::Writer;
use links::Links;
use pass::Scope;

/// How long an API server may take to show what a definition says, before that is a disagreement.
const LAG: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(200);
/// After something failed, and between two looks at everything however much is told.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the first look waits to hear of the definitions.
const HEARSAY: Duration = Duration::from_secs(3);

/// What makes the trigger look again.
#[derive(Debug)]
pub enum Notice {
    /// A migration ended or was deleted, or a StorageState was deleted.
    Resource(Resource),
    Definition(Box<Told<CustomResourceDefinition>>),
    /// An API server was away, or another one serves a group now.
    Everything,
}

/// What is to be looked at after something was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urge {
    /// What waits, and nothing more.
    Single,
    Everything,
    /// Everything, and after a while again.
    Twice,
}

/// Where the resources stand, after the first look at all of them.
pub type Standings = Option<BTreeMap<Resource, Standing>>;

pub struct Trigger {
    writer: Writer,
    servers: Servers,
    links: Links,
    rhythm: Rhythm,
    definitions: Definitions,
    /// What is to be looked at, and when; apart from everything.
    waiting: BTreeMap<Resource, Waiting>,
    /// When each resource was last at rest, since boot.
    looked: BTreeMap<Resource, Duration>,
    standings: watch::Sender<Standings>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    since: Instant,
    due: Instant,
}

impl Waiting {
    fn now() -> Self {
        let now = Instant::now();
        Self { since: now, due: now }
    }
}

impl Trigger {
    /// `notices` is the other end of what it is told.
    pub fn new(
        cluster: &Cluster,
        api_servers: Vec<String>,
        rhythm: Rhythm,
        notices: mpsc::Sender<Notice>,
        standings: watch::Sender<Standings>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        Ok(Self {
            writer: Writer::new(&cluster.client()?),
            servers: Servers::new(cluster.clone(), api_servers)?,
            links: Links::new(notices),
            rhythm,
            definitions: Definitions::default(),
            waiting: BTreeMap::new(),
            looked: BTreeMap::new(),
            standings,
            metrics,
        })
    }

    /// Works for as long as it is polled.
    pub async fn run(mut self, mut inbox: mpsc::Receiver<Notice>) {
        // Definitions are heard of first, so that their changes are told from what they were in the beginning.
        let mut next_full = Instant::now() + HEARSAY;
        let mut last_full: Option<Instant> = None;
        let mut echo = false;
        loop {
            let due = self.waiting.values().map(|it| it.due).chain([next_full]).min().unwrap_or(next_full);
            tokio::select! {
                biased;
                Some(notice) = inbox.recv() => {
                    let urge = self.take(notice);
                    echo |= urge == Urge::Twice;
                    if urge != Urge::Single {
                        let soonest = last_full.map_or_else(Instant::now, |last| last + PAUSE);
                        next_full = next_full.min(soonest);
                    }
                    continue;
                }
                () = tokio::time::sleep_until(due) => {}
            }
            let now = Instant::now();
            let full = now >= next_full;
            let scope = if full { Scope::All } else { Scope::Some(self.due(now)) };
            let passed = self.pass(scope).await;
            if let Err(error) = &passed {
                self.report(error);
            }
            if full {
                last_full = Some(Instant::now());
                next_full = now
                    + passed
                        .map_or(PAUSE, |unclear| self.rhythm.next_in(unclear > 0, std::mem::take(&mut echo)));
            } else if passed.is_err() {
                self.waiting.values_mut().for_each(|it| it.due = it.due.max(now + PAUSE));
            }
        }
    }

    fn due(&self, now: Instant) -> Vec<Resource> {
        let due = self.waiting.iter().filter(|(_, it)| it.due <= now);
        due.map(|(resource, _)| resource.clone()).collect()
    }

    fn take(&mut self, notice: Notice) -> Urge {
        match notice {
            Notice::Resource(resource) => self.look_soon(resource),
            Notice::Everything => return Urge::Twice,
            Notice::Definition(told) => match *told {
                Told::Broken => return Urge::Twice,
                Told::Event(event) => return self.take_definition(event),
            },
        }
        Urge::Single
    }

    fn take_definition(&mut self, event: Event<CustomResourceDefinition>) -> Urge {
        match event {
            Event::Init => self.definitions.list_begins(),
            Event::Apply(crd) | Event::InitApply(crd) => {
                if let Some(definition) = crd.definition()
                    && self.definitions.seen(definition)
                {
                    self.look_soon(crd.resource());
                }
            }
            Event::Delete(crd) => {
                self.definitions.deleted(&crd.resource());
                self.look_soon(crd.resource());
            }
            Event::InitDone => {
                let gone = self.definitions.list_ends();
                gone.into_iter().for_each(|resource| self.look_soon(resource));
                return Urge::Everything;
            }
        }
        Urge::Single
    }

    fn look_soon(&mut self, resource: Resource) {
        self.waiting.insert(resource, Waiting::now());
    }

    fn report(&self, error: &Error) {
        self.metrics.pass_failed();
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, "nothing could be decided; trying again");
    }
}
