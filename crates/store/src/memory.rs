//! All objects as they were last committed, and the latest events. It must not be changed before the file is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::object::{Action, Event, List, Pending, Stored, Version, Watch};

/// Events that are kept for those who watch; who is further behind lists again.
const MOST_EVENTS: usize = 4096;
/// Of the objects in them, as they are stored.
const MOST_EVENT_BYTES: usize = 16 << 20;

/// One committed change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub kind: &'static str,
    pub number: u64,
    pub action: Action,
    pub object: Stored,
    pub bytes: usize,
}

#[derive(Debug, Default)]
struct Contents {
    kinds: BTreeMap<String, BTreeMap<String, Stored>>,
    version: u64,
    events: VecDeque<Change>,
    event_bytes: usize,
    /// Everything after this version is in `events`.
    told_from: u64,
}

#[derive(Debug)]
pub(crate) struct Memory {
    contents: RwLock<Contents>,
    latest: watch::Sender<u64>,
}

pub(crate) fn stored(name: String, number: u64, document: Value) -> Stored {
    Stored { name, version: Version(number.to_string()), document: Arc::new(document) }
}

impl Memory {
    pub fn new(version: u64, objects: Vec<(String, Stored)>) -> Self {
        let mut kinds: BTreeMap<String, BTreeMap<String, Stored>> = BTreeMap::new();
        for (kind, object) in objects {
            kinds.entry(kind).or_default().insert(object.name.clone(), object);
        }
        let contents = Contents { kinds, version, told_from: version, ..Contents::default() };
        Self { contents: RwLock::new(contents), latest: watch::Sender::new(version) }
    }

    // A writer that panicked has left a whole state: each change is applied at once.
    fn read<T>(&self, look: impl FnOnce(&Contents) -> T) -> T {
        look(&self.contents.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn version(&self) -> u64 {
        self.read(|contents| contents.version)
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<Stored> {
        self.read(|contents| contents.kinds.get(kind)?.get(name).cloned())
    }

    pub fn count(&self, kind: &str) -> usize {
        self.read(|contents| contents.kinds.get(kind).map_or(0, BTreeMap::len))
    }

    pub fn list(&self, kind: &str) -> List {
        self.read(|contents| List {
            items: contents.kinds.get(kind).map(|all| all.values().cloned().collect()).unwrap_or_default(),
            version: Version(contents.version.to_string()),
        })
    }

    pub fn apply(&self, changes: Vec<Change>) {
        let Some(last) = changes.last().map(|change| change.number) else { return };
        {
            let mut contents = self.contents.write().unwrap_or_else(PoisonError::into_inner);
            for change in changes {
                let all = contents.kinds.entry(change.kind.to_owned()).or_default();
                match change.action {
                    Action::Removed => {
                        all.remove(&change.object.name);
                    }
                    Action::Added | Action::Modified => {
                        all.insert(change.object.name.clone(), change.object.clone());
                    }
                }
                contents.version = change.number;
                contents.event_bytes += change.bytes;
                contents.events.push_back(change);
            }
            while contents.events.len() > MOST_EVENTS || contents.event_bytes > MOST_EVENT_BYTES {
                let Some(oldest) = contents.events.pop_front() else { break };
                contents.event_bytes -= oldest.bytes;
                contents.told_from = oldest.number;
            }
        }
        self.latest.send_replace(last);
    }

    /// The first event of a kind after a version; none if nothing happened yet.
    fn after(&self, kind: &str, version: u64) -> Result<Option<Change>> {
        self.read(|contents| {
            // A version that is yet to come was not made by this file: somebody put an older one back.
            if version < contents.told_from || version > contents.version {
                return Err(Error::TooOld(version.to_string()));
            }
            let start = contents.events.partition_point(|change| change.number <= version);
            Ok(contents.events.range(start..).find(|change| change.kind == kind).cloned())
        })
    }

    pub fn watch(self: &Arc<Self>, kind: &'static str, from: &Version) -> Result<Box<dyn Watch>> {
        let seen = from.0.parse().map_err(|_| Error::TooOld(from.0.chars().take(40).collect()))?;
        self.after(kind, seen)?;
        let latest = self.latest.subscribe();
        Ok(Box::new(Following { memory: Arc::clone(self), latest, kind, seen }))
    }
}

struct Following {
    memory: Arc<Memory>,
    latest: watch::Receiver<u64>,
    kind: &'static str,
    seen: u64,
}

impl Watch for Following {
    fn next(&mut self) -> Pending<'_, Event> {
        Box::pin(async move {
            loop {
                let now = *self.latest.borrow_and_update();
                if let Some(change) = self.memory.after(self.kind, self.seen)? {
                    self.seen = change.number;
                    return Ok(Event { action: change.action, object: change.object });
                }
                // Nothing of this kind up to here: where it stands moves on, or a quiet kind would become too old.
                self.seen = self.seen.max(now);
                self.latest.changed().await.map_err(|_| Error::Closed)?;
            }
        })
    }
}
