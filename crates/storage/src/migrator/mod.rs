//! Stand-in until the migrator is merged: it declares every migration a success without writing an object.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::api::StorageVersionMigration;
use crate::metrics::Metrics;
use crate::settings::Settings;

#[derive(Clone)]
pub struct Migrator {
    client: Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Succeeded,
    Failed,
    Stopped,
    Gone,
}

impl Migrator {
    pub fn new(client: Client, _: &Settings, _: Arc<Metrics>) -> Self {
        Self { client }
    }

    pub async fn run(&self, migration: StorageVersionMigration, stop: CancellationToken) -> Ended {
        let api: Api<StorageVersionMigration> = Api::all(self.client.clone());
        let done = serde_json::json!({"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}});
        let name = migration.name_any();
        let (params, patch) = (PatchParams::default(), Patch::Merge(&done));
        tokio::select! {
            () = stop.cancelled() => Ended::Stopped,
            patched = api.patch_status(&name, &params, &patch) => match patched {
                Ok(_) => Ended::Succeeded,
                Err(_) => Ended::Gone,
            },
        }
    }
}
