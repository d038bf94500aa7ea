//! The migration's own object: its stamp and its status. Every write is for the very object that was read, at the very
//! version that was read; whoever comes in between is looked at before anything is written again.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use logic::storage::{Phase, Stamp};
use serde_json::json;
use tracing::{debug, warn};

use super::Ended;
use crate::api::{StorageVersionMigration, StorageVersionMigrationStatus, stamp_annotations};

pub(super) struct Record {
    api: Api<StorageVersionMigration>,
    seen: StorageVersionMigration,
}

/// When it is written down how far a pass came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    pub first: Duration,
    pub every: Duration,
}

impl Default for Rhythm {
    /// Short migrations come and go without a word in between.
    fn default() -> Self {
        Self { first: Duration::from_secs(1), every: Duration::from_secs(2) }
    }
}

/// The migration is not ours to carry out any more.
#[derive(Debug)]
pub(super) struct Lost(pub Ended);

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

impl Record {
    pub fn new(client: Client, seen: StorageVersionMigration) -> Self {
        Self { api: Api::all(client), seen }
    }

    pub fn seen(&self) -> &StorageVersionMigration {
        &self.seen
    }

    pub fn status(&self) -> Option<&StorageVersionMigrationStatus> {
        self.seen.status.as_ref()
    }

    pub fn name(&self) -> String {
        self.seen.metadata.name.clone().unwrap_or_default()
    }

    pub async fn write(&mut self, status: &StorageVersionMigrationStatus) -> Result<(), Lost> {
        let mut pause = FIRST_PAUSE;
        loop {
            let object = StorageVersionMigration { status: Some(status.clone()), ..self.seen.clone() };
            let written = self.api.replace_status(&self.name(), &PostParams::default(), &object).await;
            match written {
                Ok(written) => {
                    self.seen = written;
                    return Ok(());
                }
                Err(error) => self.after(error, &mut pause).await?,
            }
        }
    }

    /// Writes what this migration is worth, and forgets where an earlier run was.
    pub async fn stamp(&mut self, stamp: &Stamp) -> Result<(), Lost> {
        let mut pause = FIRST_PAUSE;
        loop {
            let metadata = &self.seen.metadata;
            let patch = json!({"metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "annotations": stamp_annotations(stamp),
            }});
            let patched = self.api.patch(&self.name(), &PatchParams::default(), &Patch::Merge(patch)).await;
            match patched {
                Ok(patched) => {
                    self.seen = patched;
                    return Ok(());
                }
                Err(error) => self.after(error, &mut pause).await?,
            }
        }
    }

    /// Looks again after a conflict; waits after anything else that may pass.
    async fn after(&mut self, error: kube::Error, pause: &mut Duration) -> Result<(), Lost> {
        let code = code(&error);
        match code {
            Some(404) => return Err(Lost(Ended::Gone)),
            Some(409) => debug!(migration = self.name(), "somebody else wrote the migration"),
            _ => {
                warn!(migration = self.name(), %error, "the migration's status can't be written, trying again");
                tokio::time::sleep(*pause).await;
                *pause = (*pause * 2).min(LONGEST_PAUSE);
            }
        }
        match self.api.get(&self.name()).await {
            Ok(now) => self.look(now),
            Err(error) if self::code(&error) == Some(404) => Err(Lost(Ended::Gone)),
            // The next try to write tells.
            Err(_) => Ok(()),
        }
    }

    fn look(&mut self, now: StorageVersionMigration) -> Result<(), Lost> {
        if now.metadata.uid != self.seen.metadata.uid || now.metadata.deletion_timestamp.is_some() {
            return Err(Lost(Ended::Gone));
        }
        match now.phase() {
            Phase::Succeeded => return Err(Lost(Ended::Succeeded)),
            Phase::Failed => return Err(Lost(Ended::Failed)),
            Phase::Pending | Phase::Running => {}
        }
        // Somebody made it worth something else: what was done so far may not be worth that.
        if now.stamp() != self.seen.stamp() {
            return Err(Lost(Ended::Stopped));
        }
        self.seen = now;
        Ok(())
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
