//! Everything about a cluster's storage versions at one time, for people and for the gate.

use std::collections::BTreeMap;

use kube::api::{Api, ListParams};
use kube::{Client, Resource as _};
use logic::storage::{Gate, Resource, ServedHere, State, Supported, gate};

use crate::api::{StorageState, StorageVersionMigration};
use crate::discovery::{Discovered, discover};
use crate::error::Error;

pub struct Overview {
    /// Those that are named after their resource; nothing is known from the others.
    pub states: BTreeMap<Resource, StorageState>,
    /// The newest first.
    pub migrations: Vec<StorageVersionMigration>,
    pub discovered: Discovered,
}

pub async fn overview(client: &Client) -> Result<Overview, Error> {
    let states: Api<StorageState> = Api::all(client.clone());
    let migrations: Api<StorageVersionMigration> = Api::all(client.clone());
    let everything = ListParams::default();
    let (states, migrations, discovered) = tokio::join!(
        async { states.list(&everything).await.map_err(missing("list StorageStates")) },
        async { migrations.list(&everything).await.map_err(missing("list StorageVersionMigrations")) },
        async { discover(client).await.map_err(Error::request("read its discovery documents")) },
    );
    let states = states?.items.into_iter().filter(StorageState::is_named_right);
    let mut migrations = migrations?.items;
    migrations.sort_by_key(|it| std::cmp::Reverse(it.meta().creation_timestamp.as_ref().map(|time| time.0)));
    Ok(Overview {
        states: states.map(|state| (state.spec.resource.clone(), state)).collect(),
        migrations,
        discovered: discovered?,
    })
}

/// Without the custom resources there is nothing to look at, and a better answer than "not found".
fn missing(what: &'static str) -> impl FnOnce(kube::Error) -> Error {
    move |error| match error {
        kube::Error::Api(status) if status.code == 404 => Error::NotInstalled,
        error => Error::request(what)(error),
    }
}

impl Overview {
    /// The newest migration of a resource.
    pub fn migration_of(&self, resource: &Resource) -> Option<&StorageVersionMigration> {
        self.migrations.iter().find(|migration| migration.spec.resource.resource() == *resource)
    }

    /// Whether it is safe to move to an API server that understands these, by what is known at `now`, in seconds since
    /// 1970. What is older than `patience` seconds is not believed.
    pub fn gate(&self, supported: &[Supported], now: i64, patience: i64) -> Gate {
        let states: BTreeMap<Resource, State> = self
            .states
            .iter()
            .filter_map(|(resource, state)| Some((resource.clone(), state.state()?)))
            .collect();
        let served = self.discovered.served.iter().map(|(resource, served)| {
            (resource.clone(), ServedHere { kind: served.kind.clone(), hash: served.hash.clone() })
        });
        gate(&states, &served.collect(), supported, now, patience)
    }
}
