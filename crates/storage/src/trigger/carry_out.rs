//! One resource until it is at rest: the next write, what came of it, the next. No write is made on what was not seen:
//! each names the version or the identity of what it changes.

use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use logic::storage::{Observed, Offered, Phase, Resource, State, StoredVersion, Write, next};

use crate::api::{StorageState, StorageVersionMigration};
use crate::watch::CustomResourceDefinition;

/// Writes for one resource at one look. Only whoever makes migrations faster than they are deleted gets there.
const AT_MOST: usize = 100;

/// Writes what the trigger decides.
pub struct Writer {
    pub states: Api<StorageState>,
    pub migrations: Api<StorageVersionMigration>,
    /// Only read.
    pub definitions: Api<CustomResourceDefinition>,
}

/// One resource as it was found, and as it is after each write.
pub struct Look {
    pub resource: Resource,
    /// To read and write it through.
    version: String,
    observed: Observed,
    state: Option<StorageState>,
    migrations: Vec<StorageVersionMigration>,
    /// What was noticed of the resource's definition is in the state now.
    pub written_down: bool,
}

/// Where a resource stands when there is nothing left to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Settled,
    UnderWay,
    /// Its migration failed, and says why.
    Failed,
    Disputed,
}

pub enum End {
    /// None for one that is gone.
    Rest(Option<Standing>),
    /// Somebody else wrote meanwhile.
    Again,
}

impl Look {
    pub fn new(
        resource: Resource,
        version: String,
        observed: Observed,
        state: Option<StorageState>,
        migrations: Vec<StorageVersionMigration>,
    ) -> Self {
        let mut look = Self { resource, version, observed, state, migrations, written_down: false };
        look.observe();
        look
    }

    fn observe(&mut self) {
        self.observed.state = self.state.as_ref().map(|it| (it.uid().unwrap_or_default(), it.state()));
        self.observed.migrations = self.migrations.iter().map(StorageVersionMigration::observed).collect();
    }

    fn standing(&self) -> Option<Standing> {
        if self.observed.offered == Offered::Removed {
            return None;
        }
        let state = self.state.as_ref().and_then(StorageState::state)?;
        // What does not count any more was deleted before.
        let failed = self.observed.migrations.iter().any(|it| it.phase == Phase::Failed);
        let under_way = self.observed.migrations.iter().any(|it| !it.phase.is_over());
        Some(match state.current {
            StoredVersion::Unknown => Standing::Disputed,
            StoredVersion::Known(_) if state.is_settled() => Standing::Settled,
            StoredVersion::Known(_) if failed && !under_way => Standing::Failed,
            StoredVersion::Known(_) => Standing::UnderWay,
        })
    }
}

impl Writer {
    pub fn new(client: &Client) -> Self {
        Self {
            states: Api::all(client.clone()),
            migrations: Api::all(client.clone()),
            definitions: Api::all(client.clone()),
        }
    }

    pub async fn carry_out(&self, mut look: Look) -> (Look, Result<End, kube::Error>) {
        for _ in 0..AT_MOST {
            let Some(write) = next(&look.observed) else {
                let standing = look.standing();
                return (look, Ok(End::Rest(standing)));
            };
            match self.write(&mut look, write).await {
                Ok(()) => look.observe(),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    tracing::debug!(resource = %look.resource, cause = status.message, "it changed; looking again");
                    return (look, Ok(End::Again));
                }
                Err(error) => return (look, Err(error)),
            }
        }
        (look, Ok(End::Again))
    }

    async fn write(&self, look: &mut Look, write: Write) -> kube::Result<()> {
        match write {
            Write::CreateState => {
                let state = StorageState::new(&look.resource);
                look.state = Some(self.states.create(&PostParams::default(), &state).await?);
            }
            Write::UpdateState(state) => self.update_state(look, &state).await?,
            Write::DeleteState => self.delete_state(look).await?,
            Write::CreateMigration(stamp) => {
                let migration = StorageVersionMigration::new(&look.resource, &look.version, Some(&stamp));
                let made = self.migrations.create(&PostParams::default(), &migration).await?;
                let (resource, name) = (&look.resource, made.name_any());
                tracing::info!(%resource, migration = name, target = %stamp.target, "a migration is asked for");
                look.migrations.push(made);
            }
            Write::DeleteMigration(name) => {
                let at = look.migrations.iter().position(|it| it.metadata.name.as_ref() == Some(&name));
                let Some(at) = at else { return Ok(()) };
                let migration = look.migrations.remove(at);
                gone(self.migrations.delete(&name, &only(migration.uid())).await)?;
                let (resource, phase) = (&look.resource, migration.phase());
                tracing::info!(%resource, migration = name, ?phase, "a migration counts for nothing any more: deleted");
            }
        }
        Ok(())
    }

    async fn update_state(&self, look: &mut Look, state: &State) -> kube::Result<()> {
        let Some(object) = &look.state else { return Ok(()) };
        let before = object.state();
        let changed = StorageState { status: Some(state.into()), ..object.clone() };
        let written =
            self.states.replace_status(&object.name_any(), &PostParams::default(), &changed).await?;
        look.state = Some(written);
        look.observed.passed_by.clear();
        look.observed.missed = false;
        look.written_down = true;
        let same = |it: &State| it.persisted == state.persisted && it.current == state.current;
        if !before.as_ref().is_some_and(same) {
            let persisted: Vec<String> = state.persisted.iter().map(ToString::to_string).collect();
            let (resource, persisted) = (&look.resource, persisted.join(" "));
            tracing::info!(%resource, persisted, current = %state.current, "what may be stored has changed");
        }
        Ok(())
    }

    async fn delete_state(&self, look: &mut Look) -> kube::Result<()> {
        let Some(object) = &look.state else { return Ok(()) };
        gone(self.states.delete(&object.name_any(), &only(object.uid())).await)?;
        let resource = &look.resource;
        match look.observed.offered {
            Offered::Removed => {
                tracing::info!(%resource, "the resource's definition was deleted: its state too")
            }
            _ => {
                let heartbeat = object.status.as_ref().and_then(|it| it.last_heartbeat_time);
                let heartbeat = heartbeat.map(tracing::field::display);
                tracing::warn!(%resource, heartbeat, "nobody watched this resource for too long: what is stored is unknown");
            }
        }
        look.state = None;
        Ok(())
    }
}

/// Only this very object, not one of the same name that somebody made meanwhile.
fn only(uid: Option<String>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions { uid, ..Preconditions::default() }),
        ..DeleteParams::default()
    }
}

/// What is gone already need not be deleted.
fn gone<T>(deleted: kube::Result<T>) -> kube::Result<()> {
    match deleted {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}
