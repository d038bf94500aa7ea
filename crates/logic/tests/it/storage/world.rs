//! The world that the walk goes through: API servers, two objects in etcd, the StorageState, migrations, and a trigger
//! that may die at any time. Counters are abstracted away: only whether a migration is stamped for the change in force
//! matters, never which number that is.

use std::collections::BTreeSet;

use logic::storage::{
    Migration, Observed, Offered, Phase, Stamp, State, StoredVersion, VersionHash, Write, next,
};

/// A version, and sets of them as bits.
type Version = u8;
type Versions = u8;
const UNKNOWN: Versions = 1 << 7;
const VERSIONS: u8 = 2;
const OBJECTS: usize = 2;
const NOW: i64 = 1_000_000;
const PATIENCE: i64 = 600;

#[derive(Debug, Clone, Copy)]
pub struct Site {
    pub servers: usize,
    /// Each change of the storage version is seen by a watch while the trigger runs, and a gap is noticed afterwards.
    pub watched: bool,
    /// Migrations that exist at once; beyond it nobody makes another by hand.
    pub migrations: usize,
}

pub struct World {
    pub site: Site,
    pub mistake: Option<Mistake>,
}

/// Rules to break on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A migration of an earlier change narrows what may be stored.
    AnySuccessCounts,
    /// A heartbeat is believed however old it is.
    OldHeartbeatBelieved,
    /// The new version replaces the old ones instead of joining them.
    VersionsReplaced,
    /// What a watch saw go by is thrown away.
    PassedByForgotten,
    /// After a gap it guesses that nothing happened.
    GapIgnored,
    /// The first of the API servers is believed.
    DisputeIgnored,
    /// An interrupted migration is taken for a finished one.
    RunningCounts,
    /// A StorageState that somebody deleted is made anew as if everything were migrated.
    FreshStateIsSettled,
}

impl Mistake {
    pub const ALL: [Self; 8] = [
        Self::AnySuccessCounts,
        Self::OldHeartbeatBelieved,
        Self::VersionsReplaced,
        Self::PassedByForgotten,
        Self::GapIgnored,
        Self::DisputeIgnored,
        Self::RunningCounts,
        Self::FreshStateIsSettled,
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Moment {
    servers: [Version; 2],
    objects: [Version; OBJECTS],
    record: Record,
    migrations: Vec<Asked>,
    trigger: Trigger,
    /// What happened to the storage version since the observation that was last written down.
    unrecorded: Happened,
}

/// The StorageState.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Record {
    Missing,
    Blank,
    Filled { persisted: Versions, current: Option<Version>, old: bool },
}

/// A StorageVersionMigration and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Asked {
    /// The version, and whether it is for the change in force.
    stamp: Option<(Version, bool)>,
    written: u8,
    phase: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum How {
    Pending,
    Running,
    /// All is written, and the storage version was looked at once more.
    Verified,
    Succeeded,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Trigger {
    Down,
    Idle {
        passed_by: Versions,
    },
    /// In the middle of a pass; `later` is what happened since it looked.
    Passing {
        offered: Versions,
        passed_by: Versions,
        missed: bool,
        later: Happened,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Happened {
    versions: Versions,
    /// Which servers changed, one bit each.
    servers: u8,
    /// One of them more than once.
    again: bool,
}

impl Happened {
    fn and(self, server: usize, version: Version) -> Self {
        let again = self.again || self.has(server);
        Self { versions: self.versions | 1 << version, servers: self.servers | 1 << server, again }
    }

    fn has(self, server: usize) -> bool {
        self.servers & 1 << server != 0
    }
}

#[derive(Debug)]
#[allow(dead_code, reason = "shown in a counter-example")]
pub enum Action {
    StorageVersionChanges { server: usize, to: Version },
    SomebodyWrites { object: usize },
    TriggerStarts,
    TriggerDies,
    TriggerLooks,
    TriggerWrites(Write),
    TriggerIsDone,
    HeartbeatGetsOld,
    MigratorBegins(usize),
    MigratorWrites(usize),
    MigratorLooksAgain(usize),
    MigratorReports(usize),
    MigratorFails(usize),
    MigrationDeleted(usize),
    MigrationByHand,
    StateDeleted,
}

impl testkit::explore::World for World {
    type State = Moment;
    type Action = Action;

    fn initial(&self) -> Vec<Moment> {
        // Whatever happened before anybody looked.
        let versions = 0..VERSIONS;
        let objects = versions.clone().flat_map(|a| versions.clone().map(move |b| [a, b]));
        objects
            .map(|objects| Moment {
                servers: [0; 2],
                objects,
                record: Record::Missing,
                migrations: vec![],
                trigger: Trigger::Down,
                unrecorded: Happened::default(),
            })
            .collect()
    }

    fn next(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        // In which order migrations were made makes no difference, so that no two moments differ by it alone.
        let step = &mut |action, mut then: Moment| {
            then.migrations.sort();
            step(action, then);
        };
        self.environment(now, step);
        self.people(now, step);
        self.migrator(now, step);
        self.trigger(now, step);
    }

    /// Each version that an object is stored in is written down, or nothing is claimed to be known. What changed since
    /// the last look can't be known yet: that is what the heartbeat tells.
    fn check(&self, now: &Moment) -> Result<(), String> {
        let Record::Filled { persisted, old: false, .. } = now.record else { return Ok(()) };
        if persisted & UNKNOWN != 0 {
            return Ok(());
        }
        for (number, version) in now.objects.iter().enumerate() {
            if (persisted | now.unrecorded.versions) & 1 << version == 0 {
                return Err(format!("object {number} is stored in {version}, which is not written down"));
            }
        }
        Ok(())
    }

    fn resting(&self, now: &Moment) -> bool {
        let version = now.servers[0];
        let settled = Record::Filled { persisted: 1 << version, current: Some(version), old: false };
        now.servers[1] == version && now.record == settled && now.objects == [version; OBJECTS]
    }
}

impl World {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn environment(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        for server in 0..self.site.servers {
            for to in (0..VERSIONS).filter(|to| *to != now.servers[server]) {
                let mut then = now.clone();
                then.servers[server] = to;
                if self.site.servers == 1 {
                    then.servers[1] = to;
                }
                if self.happens(&mut then, server, to) {
                    step(Action::StorageVersionChanges { server, to }, then);
                }
            }
        }
        for object in 0..OBJECTS {
            for version in BTreeSet::from(now.servers) {
                let mut then = now.clone();
                then.objects[object] = version;
                step(Action::SomebodyWrites { object }, then);
            }
        }
        if let Record::Filled { old, .. } = &now.record
            && !old
            && now.trigger == Trigger::Down
        {
            let mut then = now.clone();
            if let Record::Filled { old, .. } = &mut then.record {
                *old = true;
            }
            step(Action::HeartbeatGetsOld, then);
        }
    }

    /// A change, as it is remembered. False where the document's assumption rules it out: without a watch, the storage
    /// version of an API server does not change twice between two looks.
    fn happens(&self, then: &mut Moment, server: usize, to: Version) -> bool {
        let old = matches!(then.record, Record::Filled { old: true, .. } | Record::Missing | Record::Blank);
        let may_be_missed = self.site.watched || old;
        let (trigger, unrecorded) = (&mut then.trigger, &mut then.unrecorded);
        if !may_be_missed && unrecorded.has(server) {
            return false;
        }
        *unrecorded = unrecorded.and(server, to);
        match trigger {
            Trigger::Down => {}
            Trigger::Idle { passed_by } => {
                if self.site.watched {
                    *passed_by |= 1 << to;
                }
            }
            Trigger::Passing { later, .. } => *later = later.and(server, to),
        }
        true
    }

    fn people(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        for number in 0..now.migrations.len() {
            let mut then = now.clone();
            then.migrations.remove(number);
            step(Action::MigrationDeleted(number), then);
        }
        if now.migrations.len() < self.site.migrations && now.migrations.iter().all(|it| it.stamp.is_some()) {
            let mut then = now.clone();
            then.migrations.push(Asked { stamp: None, written: 0, phase: How::Pending });
            step(Action::MigrationByHand, then);
        }
        if now.record != Record::Missing {
            let mut then = now.clone();
            forget_stamps(&mut then);
            then.record = Record::Missing;
            step(Action::StateDeleted, then);
        }
    }

    /// The migrator talks to the first server.
    fn migrator(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        for (number, asked) in now.migrations.iter().enumerate() {
            let mut set = |action: Action, change: &dyn Fn(&mut Moment, &mut Asked)| {
                let mut then = now.clone();
                let mut asked = asked.clone();
                change(&mut then, &mut asked);
                then.migrations[number] = asked;
                step(action, then);
            };
            match asked.phase {
                How::Pending => set(Action::MigratorBegins(number), &|then, asked| {
                    let for_change = matches!(then.record, Record::Filled { .. });
                    asked.stamp = asked.stamp.or(Some((then.servers[0], for_change)));
                    asked.phase = How::Running;
                }),
                How::Running if usize::from(asked.written) < OBJECTS => {
                    set(Action::MigratorWrites(number), &|then, asked| {
                        then.objects[usize::from(asked.written)] = then.servers[0];
                        asked.written += 1;
                    });
                    set(Action::MigratorFails(number), &|_, asked| asked.phase = How::Failed);
                }
                How::Running => {
                    let target = asked.stamp.map(|(target, _)| target);
                    if target == Some(now.servers[0]) {
                        set(Action::MigratorLooksAgain(number), &|_, asked| asked.phase = How::Verified);
                    }
                }
                How::Verified => {
                    set(Action::MigratorReports(number), &|_, asked| asked.phase = How::Succeeded);
                }
                How::Succeeded | How::Failed => {}
            }
        }
    }

    fn trigger(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        let mut then = now.clone();
        match now.trigger.clone() {
            Trigger::Down => {
                then.trigger = Trigger::Idle { passed_by: 0 };
                step(Action::TriggerStarts, then);
            }
            Trigger::Idle { passed_by } => {
                // The watch knows what it has seen; for the rest, the definition's generation tells that it was more.
                let missed = self.site.watched && now.unrecorded.again && passed_by.count_ones() < 2;
                let servers = now.servers.iter().take(self.site.servers);
                let offered = match self.is(Mistake::DisputeIgnored) {
                    true => 1 << now.servers[0],
                    false => servers.fold(0, |all, version| all | 1 << version),
                };
                let passed_by = if self.is(Mistake::PassedByForgotten) { 0 } else { passed_by };
                let missed = missed && !self.is(Mistake::GapIgnored);
                then.trigger = Trigger::Passing { offered, passed_by, missed, later: Happened::default() };
                step(Action::TriggerLooks, then);
                self.dies(now, step);
            }
            Trigger::Passing { offered, passed_by, missed, later } => {
                match next(&self.observed(now, offered, passed_by, missed)) {
                    Some(write) => {
                        self.carry_out(&mut then, &write);
                        step(Action::TriggerWrites(write), then);
                    }
                    None => {
                        let passed_by = if self.site.watched { later.versions } else { 0 };
                        then.trigger = Trigger::Idle { passed_by };
                        step(Action::TriggerIsDone, then);
                    }
                }
                self.dies(now, step);
            }
        }
    }

    fn dies(&self, now: &Moment, step: &mut dyn FnMut(Action, Moment)) {
        let mut then = now.clone();
        then.trigger = Trigger::Down;
        step(Action::TriggerDies, then);
    }

    /// The moment in the shipped words.
    fn observed(&self, now: &Moment, offered: Versions, passed_by: Versions, missed: bool) -> Observed {
        let state = match &now.record {
            Record::Missing => None,
            Record::Blank => Some(("uid".to_owned(), None)),
            Record::Filled { persisted, current, old } => {
                let persisted = each(*persisted).map(StoredVersion::from);
                let unknown = [StoredVersion::Unknown];
                let persisted = match matches!(now.record, Record::Filled { persisted, .. } if persisted & UNKNOWN != 0)
                {
                    true => unknown.into_iter().chain(persisted).collect(),
                    false => persisted.collect(),
                };
                let current = current.map_or(StoredVersion::Unknown, |version| hash(version).into());
                let heartbeat = if *old { NOW - PATIENCE - 1 } else { NOW };
                Some((
                    "uid".to_owned(),
                    Some(State { persisted, current, heartbeat, changes: 1, generation: None }),
                ))
            }
        };
        let migrations = now.migrations.iter().enumerate().map(|(number, asked)| {
            let stamp = asked.stamp.map(|(target, counts)| {
                let counts = counts || self.is(Mistake::AnySuccessCounts);
                Stamp { target: hash(target), state: "uid".to_owned(), change: u64::from(counts) }
            });
            let phase = match asked.phase {
                How::Pending => Phase::Pending,
                How::Running if self.is(Mistake::RunningCounts) => Phase::Succeeded,
                How::Running | How::Verified => Phase::Running,
                How::Succeeded => Phase::Succeeded,
                How::Failed => Phase::Failed,
            };
            Migration { name: number.to_string(), stamp, phase }
        });
        let hashes: BTreeSet<VersionHash> = each(offered).collect();
        let offered = match (hashes.len(), hashes.first()) {
            (1, Some(hash)) => Offered::Agreed(hash.clone()),
            _ => Offered::Disputed(hashes),
        };
        Observed {
            offered,
            passed_by: each(passed_by).collect(),
            missed,
            generation: None,
            state,
            migrations: migrations.collect(),
            now: NOW,
            patience: if self.is(Mistake::OldHeartbeatBelieved) { i64::MAX } else { PATIENCE },
        }
    }

    fn carry_out(&self, then: &mut Moment, write: &Write) {
        match write {
            Write::CreateState => then.record = Record::Blank,
            Write::DeleteState => {
                forget_stamps(then);
                then.record = Record::Missing;
            }
            Write::DeleteMigration(name) => {
                let number: usize = name.parse().expect("the names are numbers");
                then.migrations.remove(number);
            }
            Write::CreateMigration(stamp) => {
                let stamp = Some((version(&stamp.target), stamp.change == 1));
                then.migrations.push(Asked { stamp, written: 0, phase: How::Pending });
            }
            Write::UpdateState(state) => self.update(then, state),
        }
    }

    fn update(&self, then: &mut Moment, state: &State) {
        let known: BTreeSet<&StoredVersion> = state.persisted.iter().collect();
        assert_eq!(known.len(), state.persisted.len(), "a version is held once: {state:?}");
        if state.changes != 1 {
            forget_stamps(then);
        }
        let mut persisted = state.persisted.iter().fold(0, |all, version| all | bit(version));
        let current = match &state.current {
            StoredVersion::Unknown => None,
            StoredVersion::Known(hash) => Some(version(hash)),
        };
        let fresh = then.record == Record::Blank;
        if let Some(current) = current
            && (self.is(Mistake::VersionsReplaced) && !fresh
                || self.is(Mistake::FreshStateIsSettled) && fresh)
        {
            persisted = 1 << current;
        }
        then.record = Record::Filled { persisted, current, old: false };
        // What was seen is written down, and need not be remembered.
        if let Trigger::Passing { passed_by, missed, later, .. } = &mut then.trigger {
            (*passed_by, *missed) = (0, false);
            then.unrecorded = *later;
        }
    }
}

fn forget_stamps(then: &mut Moment) {
    for (_, counts) in then.migrations.iter_mut().filter_map(|it| it.stamp.as_mut()) {
        *counts = false;
    }
}

fn hash(version: Version) -> VersionHash {
    VersionHash::from(["a", "b"][usize::from(version)])
}

fn version(hash: &VersionHash) -> Version {
    hash.as_str().as_bytes()[0] - b'a'
}

fn bit(version: &StoredVersion) -> Versions {
    match version {
        StoredVersion::Unknown => UNKNOWN,
        StoredVersion::Known(hash) => 1 << self::version(hash),
    }
}

fn each(versions: Versions) -> impl Iterator<Item = VersionHash> {
    (0..VERSIONS).filter(move |version| versions & 1 << version != 0).map(hash)
}
