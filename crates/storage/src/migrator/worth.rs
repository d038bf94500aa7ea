//! What a migration is worth: the storage version that it is stamped with at its beginning, and whether that is still the
//! one at its end.

use std::future::Future;

use kube::Api;
use kubernetes::clock;
use logic::storage::{Resource, Stamp, State};
use tracing::{info, warn};

use super::record::{Lost, Record};
use super::report::{Report, Stuck};
use super::tally::{Counts, Tally};
use super::trouble::{Kind, Trouble};
use super::{Ended, Failure, Migrator};
use crate::api::{StorageState, StorageVersionMigration, StorageVersionMigrationStatus};
use crate::discovery::{Served, discover_group};
use crate::stored_versions::{Definition, Trimmed};

/// Where a pass starts.
#[derive(Default)]
pub(super) struct Start {
    pub token: Option<String>,
    pub counts: Counts,
}

pub(super) struct Begin {
    pub stamp: Stamp,
    /// To read and write through.
    pub version: String,
    /// Of a custom resource.
    pub definition: Option<Definition>,
    pub start: Start,
}

pub(super) enum Verdict {
    Stands,
    /// The storage version is another, or was meanwhile.
    Changed,
}

impl Start {
    /// From where an interrupted run left it. Without a stamp nobody knows what earlier writes are worth; then only a
    /// person's word counts that there is less to do.
    pub fn of(migration: &StorageVersionMigration) -> Self {
        if migration.stamp().is_none() {
            return Self { token: migration.spec.continue_token.clone(), counts: Counts::default() };
        }
        let Some(status) = &migration.status else { return Self::default() };
        let Some(token) = &status.continue_token else { return Self::default() };
        let progress = status.progress.clone().unwrap_or_default();
        let failures = status.failures.clone();
        let counts = Counts { migrated: progress.migrated, failed: progress.failed, failures };
        Self { token: Some(token.clone()), counts }
    }
}

impl Migrator {
    /// Makes sure that there is a stamp. Without a `start` there must be a new one, for another storage version.
    pub(super) async fn begin(
        &self,
        record: &mut Record,
        resource: &Resource,
        start: Option<Start>,
    ) -> Result<Result<Begin, Failure>, Lost> {
        // Before the hash: what changes between the two is taken for a change, not missed.
        let definition = match self.patiently(resource, || self.definition(resource)).await {
            Ok(definition) => definition,
            Err(failure) => return Ok(Err(failure)),
        };
        let version = record.seen().spec.resource.version.clone();
        let known = record.seen().stamp().filter(|_| start.is_some());
        if let Some(stamp) = &known
            && !version.is_empty()
        {
            let start = start.unwrap_or_default();
            return Ok(Ok(Begin { stamp: stamp.clone(), version, definition, start }));
        }
        let stated = match self.patiently(resource, || self.state(resource)).await {
            Ok(state) => state,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some((_, state)) = &stated
            && known.is_none()
            && state.is_disputed(clock::wall(), self.believed_for)
        {
            return Err(self.wait_for_agreement(record, resource).await?);
        }
        let served = match self.patiently(resource, || self.served(resource)).await {
            Ok(served) => served,
            Err(failure) => return Ok(Err(failure)),
        };
        let version = if version.is_empty() { served.version } else { version };
        let stamp = match known {
            Some(stamp) => stamp,
            None => {
                let (state, change) = stated.map(|(uid, state)| (uid, state.changes)).unwrap_or_default();
                let stamp = Stamp { target: served.hash, state, change };
                // Where an earlier run was is worth nothing under a new stamp, so it goes first.
                if record.status().is_some_and(|status| status.continue_token.is_some()) {
                    let forgotten = forgetful(record.status());
                    record.write(&forgotten).await?;
                }
                record.stamp(&stamp).await?;
                info!(migration = record.name(), %resource, target = %stamp.target, "stamped");
                stamp
            }
        };
        Ok(Ok(Begin { stamp, version, definition, start: start.unwrap_or_default() }))
    }

    /// Whether what was written is what the migration is stamped with. If so, and nothing failed, the definition of a
    /// custom resource is told.
    pub(super) async fn judge(
        &self,
        resource: &Resource,
        stamp: &Stamp,
        definition: Option<&Definition>,
        counts: &Counts,
    ) -> Result<Verdict, Failure> {
        let served = self.patiently(resource, || self.served(resource)).await?;
        if served.hash != stamp.target {
            info!(%resource, target = %stamp.target, now = %served.hash, "the storage version has changed");
            return Ok(Verdict::Changed);
        }
        let Some(before) = definition else { return Ok(Verdict::Stands) };
        let now = self.patiently(resource, || self.definition(resource)).await?;
        let Some(now) = now.filter(|now| now.is_same(before) && now.stores(resource, &stamp.target)) else {
            info!(%resource, "the definition has changed");
            return Ok(Verdict::Changed);
        };
        if counts.failed > 0 {
            return Ok(Verdict::Stands);
        }
        match self.patiently(resource, || self.trim(&now)).await? {
            Trimmed::Yes => Ok(Verdict::Stands),
            Trimmed::Changed => Ok(Verdict::Changed),
        }
    }

    async fn definition(&self, resource: &Resource) -> Result<Option<Definition>, (Kind, String)> {
        match Definition::read(&self.requests.client, resource).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                warn!(%resource, why = status.message, "its definition can't be read, stored versions stay as they are");
                Ok(None)
            }
            read => read.map_err(trouble),
        }
    }

    async fn trim(&self, definition: &Definition) -> Result<Trimmed, (Kind, String)> {
        match definition.trim(&self.requests.client).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                warn!(why = status.message, "stored versions can't be trimmed, they stay as they are");
                Ok(Trimmed::Yes)
            }
            trimmed => trimmed.map_err(trouble),
        }
    }

    /// Which version objects would be written in is not known while API servers disagree: nothing is begun.
    async fn wait_for_agreement(&self, record: &mut Record, resource: &Resource) -> Result<Lost, Lost> {
        const DISPUTED: &str = "Disputed";
        let why = "the API servers do not agree on its storage version".to_owned();
        let conditions = record.status().map_or(&[][..], |status| &status.conditions);
        if !conditions.iter().any(|it| it.status == "True" && it.reason == DISPUTED) {
            info!(migration = record.name(), %resource, why, "waiting");
            let stuck = Stuck { reason: DISPUTED, why };
            let mut report = Report::new(record.status());
            let status = report.running(record.status(), &Tally::default(), None, Some(&stuck));
            record.write(&status).await?;
        }
        Ok(Lost(Ended::Aside))
    }

    /// The StorageState with its uid, if there is one.
    async fn state(&self, resource: &Resource) -> Result<Option<(String, State)>, (Kind, String)> {
        let api: Api<StorageState> = Api::all(self.requests.client.clone());
        let found = api.get_opt(&resource.to_string()).await.map_err(trouble)?;
        let found = found.filter(StorageState::is_named_right);
        Ok(found.and_then(|it| Some((it.metadata.uid.clone()?, it.state()?))))
    }

    async fn served(&self, resource: &Resource) -> Result<Served, (Kind, String)> {
        let mut found = discover_group(&self.requests.client, &resource.group).await.map_err(trouble)?;
        if let Some(served) = found.served.remove(resource) {
            return Ok(served);
        }
        match found.unreadable.pop_first() {
            Some((version, why)) => Err((Kind::Failing, format!("{version}: {why}"))),
            None => Err((Kind::Gone, format!("{resource} has no storage version"))),
        }
    }

    /// Asks until there is an answer, or nobody can be that patient.
    async fn patiently<T, F>(&self, resource: &Resource, ask: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, (Kind, String)>>,
    {
        let mut met: Option<Trouble> = None;
        loop {
            let (kind, why) = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(problem) => problem,
            };
            let (trouble, news) = Trouble::met(met.take(), kind, why);
            if news {
                warn!(%resource, %trouble, "waiting");
            }
            if trouble.is_final(self.patience) {
                return Err(Failure { reason: trouble.kind.reason(), why: trouble.to_string() });
            }
            tokio::time::sleep_until(trouble.until).await;
            met = Some(trouble);
        }
    }
}

fn trouble(error: kube::Error) -> (Kind, String) {
    let kind = match &error {
        kube::Error::Api(status) if status.code == 403 => Kind::Forbidden,
        kube::Error::Api(_) => Kind::Failing,
        _ => Kind::Absent,
    };
    (kind, error.to_string())
}

/// The same status, without a place to go on from.
fn forgetful(status: Option<&StorageVersionMigrationStatus>) -> StorageVersionMigrationStatus {
    let status = status.cloned().unwrap_or_default();
    StorageVersionMigrationStatus { continue_token: None, progress: None, failures: vec![], ..status }
}
