//! The answers of one graph: made on first use, kept by what they depend on, within a limit of bytes. Ids of clients
//! are no part of that, so a fleet of any size takes the memory of its distinct situations.
//!
//! A new graph gets a new set of answers; requests that are being answered keep theirs.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use logic::graph::{Arch, Ask, Owners, ReleaseName, arch_of, view};
use semver::Version;

use super::answer::{Answer, Fragments, whole};
use super::query::Asked;
use crate::current::Snapshot;
use crate::settings::{PayloadForm, Role, Settings};

const SHARDS: usize = 8;
/// For what is not in the graph: all unknown channels, for one, are answered alike.
const UNKNOWN: u32 = u32::MAX;
/// How many answers are made again for a new graph before it is served, and for how long at most.
const WARM: (usize, Duration) = (4000, Duration::from_secs(2));

/// All that an answer depends on beside its graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    channel: u32,
    arch: u32,
    version: u32,
    whole_channel: bool,
    /// Positions of the rules that concern the client.
    applying: Vec<u32>,
}

#[derive(Debug)]
pub struct Answers {
    pub snapshot: Arc<Snapshot>,
    pub owners: Arc<Owners>,
    form: PayloadForm,
    default_arch: Option<Arch>,
    fragments: Arc<Fragments>,
    names: Arc<Names>,
    /// Where everybody gets the same.
    whole: Option<Arc<Answer>>,
    shards: [RwLock<Shard>; SHARDS],
    shard_bytes: usize,
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    kept: HashMap<Key, Arc<Answer>, Quickly>,
    /// In the order in which they came; those that were used meanwhile get another round.
    order: VecDeque<Key>,
    bytes: usize,
}

impl Answers {
    /// Takes the time of writing every node once.
    pub fn new(snapshot: Arc<Snapshot>, owners: Arc<Owners>, settings: &Settings) -> Self {
        let form = settings.payload_form;
        let graph = &snapshot.graph;
        Self {
            fragments: Arc::new(Fragments::of(graph, form)),
            names: Arc::new(Names::of(&snapshot)),
            whole: (settings.role == Role::Builder).then(|| {
                let whole = whole(graph, form);
                whole.compressed();
                Arc::new(whole)
            }),
            default_arch: arch_of(graph, None, settings.default_arch.as_ref()),
            owners,
            form,
            shards: Default::default(),
            shard_bytes: settings.limits.answer_cache_bytes / SHARDS,
            bytes: AtomicUsize::new(0),
            snapshot,
        }
    }

    /// The same graph, seen again: all that was made for it still holds.
    pub fn still_hold(&self, snapshot: &Snapshot, owners: &Arc<Owners>, settings: &Settings) -> bool {
        Arc::ptr_eq(&self.owners, owners)
            && self.form == settings.payload_form
            && self.whole.is_some() == (settings.role == Role::Builder)
            && self.shard_bytes == settings.limits.answer_cache_bytes / SHARDS
            && self.default_arch == arch_of(&snapshot.graph, None, settings.default_arch.as_ref())
            && self.snapshot.graph == snapshot.graph
    }

    pub fn whole(&self) -> Option<&Arc<Answer>> {
        self.whole.as_ref()
    }

    /// What `used` makes of the answer, and whether the answer was there already. It is lent, not handed out: that
    /// would be one more count that all threads share.
    pub fn with<T>(&self, asked: &Asked, applying: Vec<u32>, used: impl Fn(&Answer) -> T) -> (T, bool) {
        let key = self.key(asked, applying);
        let shard = &self.shards[(Quickly::default().hash_one(&key) >> 56) as usize % SHARDS];
        if let Some(answer) = shard.read().unwrap_or_else(PoisonError::into_inner).kept.get(&key) {
            answer.touch();
            return (used(answer), true);
        }
        let answer = Arc::new(self.make(&key, &asked.channel));
        self.keep(shard, key, &answer);
        (used(&answer), false)
    }

    fn key(&self, asked: &Asked, applying: Vec<u32>) -> Key {
        let mut arch = asked.arch.as_deref().map(Cow::Borrowed);
        let version = match asked.version.as_deref() {
            None => UNKNOWN,
            Some(text) => self.names.versions.get(text).copied().unwrap_or_else(|| {
                // Not as the graph writes it: with an architecture, or of another release altogether.
                let Ok(name) = ReleaseName::parse(text) else { return UNKNOWN };
                if arch.is_none() {
                    arch = name.arch.as_ref().map(|arch| Cow::Owned(arch.to_string()));
                }
                self.names.versions.get(&name.version.to_string()).copied().unwrap_or(UNKNOWN)
            }),
        };
        let arch = arch.as_deref().or(self.default_arch.as_ref().map(Arch::as_str));
        Key {
            channel: self.names.channels.get(&*asked.channel).copied().unwrap_or(UNKNOWN),
            arch: arch.map_or(UNKNOWN, |arch| self.names.arch(arch)),
            version,
            whole_channel: asked.whole_channel,
            applying,
        }
    }

    fn make(&self, key: &Key, channel: &str) -> Answer {
        let known = self.names.version_list.get(key.version as usize);
        let nowhere = Version::new(0, 0, 0);
        // A version that is not in the graph has no window, whatever it is.
        if known.is_none() && !key.whole_channel {
            return Answer::new(self.fragments.assemble(&Default::default()));
        }
        let arch = self.names.arch_list.get(key.arch as usize);
        let ask = Ask {
            version: known.unwrap_or(&nowhere),
            channel,
            arch: arch.or(self.names.no_arch.as_ref()),
            whole_channel: key.whole_channel,
            narrowed: false,
        };
        let overrides = self.owners.overrides(&key.applying);
        Answer::new(self.fragments.assemble(&view(&self.snapshot.graph, &ask, &overrides)))
    }

    fn keep(&self, shard: &RwLock<Shard>, key: Key, answer: &Arc<Answer>) {
        if answer.bytes() > self.shard_bytes {
            return;
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let before = shard.bytes;
        if shard.kept.insert(key.clone(), Arc::clone(answer)).is_none() {
            shard.bytes += answer.bytes();
            shard.order.push_back(key);
        }
        shard.make_room(self.shard_bytes);
        let after = shard.bytes;
        self.bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
    }

    /// What the kept answers take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Makes again what was in use with the graph before, so that a change of graph is not a wave of misses. Returns how
    /// many were made. `pause` is called now and then.
    pub fn warm(&self, before: &Self, mut pause: impl FnMut()) -> usize {
        let (started, mut made) = (Instant::now(), 0);
        let same_rules = Arc::ptr_eq(&self.owners, &before.owners);
        for shard in &before.shards {
            let hot: Vec<Key> = {
                let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
                let used = shard
                    .kept
                    .iter()
                    .filter(|(key, answer)| answer.was_used() && (same_rules || key.applying.is_empty()));
                used.map(|(key, _)| key.clone()).take(WARM.0 / SHARDS).collect()
            };
            for key in hot {
                if started.elapsed() > WARM.1 {
                    return made;
                }
                let Some(asked) = before.names.asked(&key) else { continue };
                self.with(&asked, key.applying, |answer| answer.compressed().len());
                made += 1;
                pause();
            }
        }
        made
    }
}

impl Shard {
    /// Lets go of what was not used since it was last looked at, oldest first.
    fn make_room(&mut self, limit: usize) {
        while self.bytes > limit {
            let Some(key) = self.order.pop_front() else { return };
            let Some(answer) = self.kept.get(&key) else { continue };
            // The one that was just put in stays for a round even if everything was in use.
            if answer.forget_use() {
                self.order.push_back(key);
                continue;
            }
            self.bytes -= answer.bytes();
            self.kept.remove(&key);
        }
    }
}

/// What requests are written in, as positions.
#[derive(Debug)]
struct Names {
    channels: HashMap<Arc<str>, u32, Quickly>,
    channel_list: Vec<Arc<str>>,
    versions: HashMap<String, u32, Quickly>,
    version_list: Vec<Version>,
    arch_list: Vec<Arch>,
    /// Stands for all architectures that are not in the graph.
    no_arch: Option<Arch>,
}

impl Names {
    fn of(snapshot: &Snapshot) -> Self {
        let graph = &snapshot.graph;
        let channel_list: Vec<Arc<str>> = graph.channels().into_iter().cloned().collect();
        let mut version_list: Vec<Version> =
            graph.nodes().iter().map(|node| node.name.version.clone()).collect();
        version_list.dedup();
        let arch_list: Vec<Arch> = graph.architectures().into_iter().cloned().collect();
        Self {
            channels: channel_list.iter().cloned().zip(0..).collect(),
            channel_list,
            versions: version_list.iter().map(Version::to_string).zip(0..).collect(),
            version_list,
            no_arch: ["none", "nothing"]
                .into_iter()
                .filter_map(|name| Arch::parse(name).ok())
                .find(|name| !arch_list.contains(name)),
            arch_list,
        }
    }

    fn arch(&self, text: &str) -> u32 {
        let found = self.arch_list.iter().position(|arch| arch.as_str() == text);
        found.map_or(UNKNOWN, |at| at as u32)
    }

    /// Back from positions to words, for asking the same of another graph.
    fn asked(&self, key: &Key) -> Option<Asked<'_>> {
        let version = self.version_list.get(key.version as usize);
        if version.is_none() && !key.whole_channel {
            return None;
        }
        Some(Asked {
            version: version.map(|version| version.to_string().into()),
            channel: Cow::Borrowed(self.channel_list.get(key.channel as usize)?),
            arch: self.arch_list.get(key.arch as usize).map(|arch| Cow::Borrowed(arch.as_str())),
            id: None,
            whole_channel: key.whole_channel,
        })
    }
}

type Quickly = BuildHasherDefault<Mix>;

/// A quick hash. It need not withstand anybody: what is looked up comes from clients, but what is put in are positions
/// and the names of one graph.
#[derive(Debug, Default)]
struct Mix(u64);

impl Mix {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn finish(&self) -> u64 {
        // The best bits are at the top, and tables look at both ends.
        self.0 ^ (self.0 >> 32)
    }
}
