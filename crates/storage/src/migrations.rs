//! Every migration that there is: those that are not over are run, so many at once and one for a resource; each ends when
//! its object is deleted. One that can't go on gives its place back, and has another turn later. The trigger is told of
//! those that ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::ResourceExt;
use kube::runtime::watcher::Event;
use logic::storage::{Resource, Waiting, to_begin};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::StorageVersionMigration;
use crate::migrator::{Ended, Migrator, Turn};
use crate::trigger::Notice;
use crate::watch::Told;

pub struct Migrations {
    /// None where others migrate.
    migrator: Option<Migrator>,
    at_once: usize,
    /// None where there is nobody to be told.
    trigger: Option<mpsc::Sender<Notice>>,
    /// Those that are not over, by uid.
    open: BTreeMap<String, Open>,
    running: BTreeMap<String, (Resource, CancellationToken)>,
    /// Those that ended here, of which the watch has not told yet.
    ended: BTreeSet<String>,
    /// Those not yet seen in the list that is being read.
    unseen: BTreeSet<String>,
    tasks: JoinSet<(String, Ended)>,
}

/// A migration that is not over.
struct Open {
    migration: StorageVersionMigration,
    /// Since when it is known here.
    seen: Instant,
    /// How often it gave its place back, and when it may have another.
    turns: u32,
    due: Instant,
}

/// For what kept a migration from going on to be over.
const NEXT_TURN: Duration = Duration::from_secs(10);

impl Open {
    fn new(migration: StorageVersionMigration) -> Self {
        let now = Instant::now();
        Self { migration, seen: now, turns: 0, due: now }
    }
}

impl Migrations {
    pub fn new(migrator: Option<Migrator>, at_once: usize, trigger: Option<mpsc::Sender<Notice>>) -> Self {
        Self {
            migrator,
            at_once,
            trigger,
            open: BTreeMap::new(),
            running: BTreeMap::new(),
            ended: BTreeSet::new(),
            unseen: BTreeSet::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Works until `stop`, and returns when nothing is written any more.
    pub async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Told<StorageVersionMigration>>,
        stop: CancellationToken,
    ) {
        loop {
            let due = self.due();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(told) = inbox.recv() => {
                    if let Told::Event(event) = told {
                        self.take(event).await;
                    }
                }
                Some(joined) = self.tasks.join_next() => self.end(joined),
                () = until(due) => {}
            }
            self.begin(&stop);
        }
        while let Some(joined) = self.tasks.join_next().await {
            self.end(joined);
        }
    }

    async fn take(&mut self, event: Event<StorageVersionMigration>) {
        match event {
            Event::Init => self.unseen = self.open.keys().cloned().collect(),
            Event::InitApply(migration) | Event::Apply(migration) => self.seen(migration).await,
            Event::Delete(migration) => self.deleted(migration).await,
            Event::InitDone => {
                for uid in std::mem::take(&mut self.unseen) {
                    if let Some(open) = self.open.remove(&uid) {
                        self.deleted(open.migration).await;
                    }
                }
            }
        }
    }

    async fn seen(&mut self, migration: StorageVersionMigration) {
        let uid = migration.uid().unwrap_or_default();
        self.unseen.remove(&uid);
        if migration.metadata.deletion_timestamp.is_some() {
            return self.deleted(migration).await;
        }
        if !migration.phase().is_over() {
            match self.open.get_mut(&uid) {
                Some(open) => open.migration = migration,
                None => {
                    self.open.insert(uid, Open::new(migration));
                }
            }
        } else {
            self.ended.remove(&uid);
            if self.open.remove(&uid).is_some() {
                self.tell(&migration).await;
            }
        }
    }

    async fn deleted(&mut self, migration: StorageVersionMigration) {
        let uid = migration.uid().unwrap_or_default();
        self.ended.remove(&uid);
        self.open.remove(&uid);
        if let Some((resource, stop)) = self.running.get(&uid) {
            tracing::info!(%resource, migration = migration.name_any(), "the migration was deleted: it ends");
            stop.cancel();
        }
        self.tell(&migration).await;
    }

    async fn tell(&self, migration: &StorageVersionMigration) {
        let Some(trigger) = &self.trigger else { return };
        // One that has ended needs no telling.
        let _ = trigger.send(Notice::Resource(migration.spec.resource.resource())).await;
    }

    /// When the next one has another turn.
    fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        self.open.values().map(|open| open.due).filter(|due| *due > now).min()
    }

    fn begin(&mut self, stop: &CancellationToken) {
        let Some(migrator) = &self.migrator else { return };
        let now = Instant::now();
        let waiting = self.open.iter().filter(|(uid, open)| {
            open.due <= now && !self.running.contains_key(*uid) && !self.ended.contains(*uid)
        });
        let mut uids = BTreeMap::new();
        let waiting = waiting.map(|(uid, Open { migration, turns, .. })| {
            let since = migration.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
            let (name, resource) = (migration.name_any(), migration.spec.resource.resource());
            uids.insert(name.clone(), uid.clone());
            Waiting { turns: *turns, since, name, resource }
        });
        let waiting = waiting.collect();
        let busy = self.running.values().map(|(resource, _)| resource.clone()).collect();
        for next in to_begin(waiting, &busy, self.at_once) {
            let Some(uid) = uids.remove(&next.name) else { continue };
            let Some(open) = self.open.get(&uid) else { continue };
            let (migration, turn) = (open.migration.clone(), Turn { seen: open.seen, gives_way: true });
            let stop = stop.child_token();
            self.running.insert(uid.clone(), (next.resource, stop.clone()));
            let migrator = migrator.clone();
            self.tasks.spawn(async move { (uid, migrator.take_turn(migration, turn, stop).await) });
        }
    }

    fn end(&mut self, joined: Result<(String, Ended), tokio::task::JoinError>) {
        let (uid, ended) = match joined {
            Ok(ended) => ended,
            // Its migration stays where it is until the controller starts again: better than to fail forever.
            Err(error) => {
                return tracing::error!(cause = %error, "a migration was cut off by a mistake in this program");
            }
        };
        self.running.remove(&uid);
        match ended {
            Ended::Succeeded | Ended::Failed if self.open.contains_key(&uid) => {
                self.ended.insert(uid);
            }
            Ended::Gone => {
                self.open.remove(&uid);
            }
            Ended::Aside => {
                if let Some(open) = self.open.get_mut(&uid) {
                    open.turns = open.turns.saturating_add(1);
                    open.due = Instant::now() + NEXT_TURN;
                }
            }
            Ended::Succeeded | Ended::Failed | Ended::Stopped => {}
        }
    }
}

/// Forever, if there is no such time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
