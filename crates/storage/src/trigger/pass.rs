//! One look: what the API servers show, the states and the migrations that there are, and from them, for each resource,
//! what is to be written.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use kube::api::ListParams;
use kubernetes::clock;
use logic::storage::{Observed, Offered, Phase, Resource};
use tokio::time::Instant;

use super::carry_out::{End, Look, Standing};
use super::{LAG, LOOK, PAUSE, Trigger, Waiting};
use crate::api::{StorageState, StorageVersionMigration};
use crate::error::Error;
use crate::servers::View;

/// Resources written at once.
const AT_ONCE: usize = 12;

pub enum Scope {
    All,
    Some(Vec<Resource>),
}

impl Trigger {
    /// Looks, and carries out what follows. Returns how many resources API servers disagree on, and groups they can't show.
    pub async fn pass(&mut self, scope: Scope) -> Result<usize, Error> {
        let (began, now) = (Instant::now(), clock::wall());
        let full = matches!(scope, Scope::All);
        let view = match &scope {
            Scope::All => {
                let servers = self.servers.refresh().await?;
                self.links.follow(servers)?;
                self.servers.look().await?
            }
            Scope::Some(resources) => {
                self.servers.look_at(&resources.iter().map(|it| it.group.as_str()).collect()).await?
            }
        };
        let mut states = self.states().await?;
        let mut migrations = self.migrations(full).await?;
        if full {
            self.definitions.forget_removed(|resource| view.resources.contains_key(resource));
        }
        let lagging = self.lagging(&migrations).await?;
        let mut stands = BTreeMap::new();
        let looks: Vec<Look> = self
            .to_look_at(scope, &view)
            .into_iter()
            .filter_map(|resource| {
                let offered = match lagging.contains(&resource) {
                    true => self.later(&resource),
                    false => self.offered(&resource, &view),
                };
                let Some(offered) = offered else {
                    let waits = self.waiting.contains_key(&resource);
                    stands.insert(resource, waits.then_some(Standing::UnderWay));
                    return None;
                };
                let state = states.remove(&resource);
                let migrations = migrations.remove(&resource).unwrap_or_default();
                let noticed = self.definitions.noticed(&resource);
                let generation = self.definitions.known(&resource).map(|it| it.generation);
                let recorded = state.as_ref().and_then(StorageState::state).and_then(|it| it.generation);
                let observed = Observed {
                    offered,
                    passed_by: noticed.passed_by,
                    missed: noticed.missed
                        || self.slept_through(&resource)
                        || recorded.is_some_and(|it| self.definitions.hide_changes_since(&resource, it)),
                    generation,
                    state: None,
                    migrations: vec![],
                    now,
                    patience: self.rhythm.patience(self.looked.contains_key(&resource)),
                };
                let version = view.resources.get(&resource).map(|it| it.version.clone()).unwrap_or_default();
                Some(Look::new(resource, version, observed, state, migrations))
            })
            .collect();
        drop((states, migrations));
        let writer = &self.writer;
        let ended: Vec<_> =
            stream::iter(looks).map(|look| writer.carry_out(look)).buffer_unordered(AT_ONCE).collect().await;
        let mut trouble = None;
        for (look, end) in ended {
            let resource = look.resource.clone();
            let standing = self.settle(look, end).unwrap_or_else(|error| {
                trouble = Some(error);
                Some(Standing::UnderWay)
            });
            stands.insert(resource, standing);
        }
        let disputed = self.stand(full, stands);
        if full {
            self.finish(&view, began, disputed);
        }
        trouble.map_or(Ok(disputed + view.dark.len()), Err)
    }

    fn to_look_at(&self, scope: Scope, view: &View) -> BTreeSet<Resource> {
        match scope {
            Scope::All => view.resources.keys().chain(self.definitions.removed()).cloned().collect(),
            Scope::Some(resources) => resources.into_iter().collect(),
        }
    }

    /// What to decide by; none if it can't be decided yet, or if there is nothing to decide.
    fn offered(&mut self, resource: &Resource, view: &View) -> Option<Offered> {
        let shown = view.resources.get(resource).map(|it| it.offered());
        let waited = self.waiting.get(resource).is_some_and(|it| it.since.elapsed() >= LAG);
        let offered = self.definitions.judge(resource, shown, waited);
        if offered.is_some() {
            return offered;
        }
        let defined = self.definitions.known(resource).is_some();
        if !defined || waited || view.dark.contains_key(&resource.group) {
            self.waiting.remove(resource);
        } else {
            return self.later(resource);
        }
        None
    }

    fn later(&mut self, resource: &Resource) -> Option<Offered> {
        self.waiting.entry(resource.clone()).or_insert_with(Waiting::now).due = Instant::now() + LOOK;
        None
    }

    /// Custom resources with a migration that succeeded, whose definitions changed without the watch having told of it
    /// yet. What a migration is worth can't be said before everything is known that happened while it ran.
    async fn lagging(
        &self,
        migrations: &BTreeMap<Resource, Vec<StorageVersionMigration>>,
    ) -> Result<BTreeSet<Resource>, Error> {
        let mut lagging = BTreeSet::new();
        for (resource, migrations) in migrations {
            let Some(known) = self.definitions.known(resource) else { continue };
            let settled = self.standings.borrow().as_ref().and_then(|it| it.get(resource).copied());
            if settled == Some(Standing::Settled)
                || migrations.iter().all(|it| it.phase() != Phase::Succeeded)
            {
                continue;
            }
            let found = self.writer.definitions.get_opt(&resource.to_string()).await;
            let found = found.map_err(Error::request(format!("the definition of {resource}")))?;
            if found.and_then(|it| it.definition()).as_ref() != Some(known) {
                lagging.insert(resource.clone());
            }
        }
        Ok(lagging)
    }

    fn slept_through(&self, resource: &Resource) -> bool {
        let looked = self.looked.get(resource);
        looked.is_some_and(|looked| self.rhythm.slept_through(*looked, clock::since_boot()))
    }

    /// Keeps what a look came to. What went wrong with one resource is no reason to leave the others.
    fn settle(&mut self, look: Look, end: Result<End, kube::Error>) -> Result<Option<Standing>, Error> {
        let resource = look.resource;
        if look.written_down {
            self.definitions.written_down(&resource);
        }
        let (pause, trouble) = match end {
            Ok(End::Rest(standing)) => {
                self.waiting.remove(&resource);
                match standing {
                    Some(_) => self.looked.insert(resource, clock::since_boot()),
                    None => self.looked.remove(&resource),
                };
                return Ok(standing);
            }
            Ok(End::Again) => (LOOK, None),
            Err(error) => (PAUSE, Some(Error::request(format!("the writes for {resource}"))(error))),
        };
        self.waiting.entry(resource).or_insert_with(Waiting::now).due = Instant::now() + pause;
        trouble.map_or(Ok(Some(Standing::UnderWay)), Err)
    }

    /// Tells where the resources stand, in one change, once all have been looked at. Returns how many are disputed.
    fn stand(&self, full: bool, stands: BTreeMap<Resource, Option<Standing>>) -> usize {
        let mut disputed = 0;
        self.standings.send_modify(|standings| {
            if full {
                standings.get_or_insert_default();
            }
            let Some(standings) = standings else { return };
            for (resource, standing) in stands {
                match standing {
                    Some(standing) => standings.insert(resource, standing),
                    None => standings.remove(&resource),
                };
            }
            disputed = standings.values().filter(|it| **it == Standing::Disputed).count();
        });
        disputed
    }

    fn finish(&self, view: &View, began: Instant, disputed: usize) {
        for (group, why) in &view.dark {
            tracing::warn!(group, cause = why, "a group can't be read; its resources are left as they are");
        }
        let took = began.elapsed();
        tracing::debug!(resources = view.resources.len(), ?took, "looked at everything");
        self.metrics.passed(took, disputed, view.dark.len());
    }

    async fn states(&self) -> Result<BTreeMap<Resource, StorageState>, Error> {
        let list = self.writer.states.list(&ListParams::default()).await;
        let list = list.map_err(Error::request("the list of StorageStates"))?;
        let mut states = BTreeMap::new();
        for state in list.items {
            if state.is_named_right() {
                states.insert(state.spec.resource.clone(), state);
            } else {
                let name = state.metadata.name.as_deref();
                let resource = state.spec.resource.to_string();
                tracing::warn!(
                    name,
                    resource,
                    "a StorageState is not named for its resource, and counts for nothing"
                );
            }
        }
        Ok(states)
    }

    async fn migrations(
        &self,
        full: bool,
    ) -> Result<BTreeMap<Resource, Vec<StorageVersionMigration>>, Error> {
        let list = self.writer.migrations.list(&ListParams::default()).await;
        let list = list.map_err(Error::request("the list of StorageVersionMigrations"))?;
        if full {
            self.metrics.migrations(list.items.iter().map(StorageVersionMigration::phase));
        }
        let mut migrations = BTreeMap::<Resource, Vec<_>>::new();
        for migration in list.items {
            migrations.entry(migration.spec.resource.resource()).or_default().push(migration);
        }
        Ok(migrations)
    }
}
