//! Migrations that a person asks for: after a key rotation, after a failure whose cause is mended, or all of them.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use logic::storage::Resource;

use crate::api::StorageVersionMigration;
use crate::discovery::{Served, discover};
use crate::error::Error;

/// How often to look, while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Debug, Clone)]
pub enum Which {
    All,
    These(Vec<Resource>),
}

/// Asks for migrations. Nobody has to have begun with them when this returns.
pub async fn ask(client: &Client, which: &Which) -> Result<Vec<StorageVersionMigration>, Error> {
    let discovered = discover(client).await.map_err(Error::request("read its discovery documents"))?;
    let wanted: Vec<(&Resource, &Served)> = match which {
        Which::All => discovered.served.iter().collect(),
        Which::These(resources) => {
            let find = |resource| {
                let served = discovered.served.get(resource);
                served.map(|served| (resource, served)).ok_or_else(|| Error::NoSuchResource(resource.clone()))
            };
            resources.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    let api: Api<StorageVersionMigration> = Api::all(client.clone());
    let mut asked = Vec::with_capacity(wanted.len());
    for (resource, served) in wanted {
        let migration = StorageVersionMigration::new(resource, &served.version, None);
        let made = api.create(&PostParams::default(), &migration).await.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => Error::NotInstalled,
            error => Error::request(format!("create a migration of {resource}"))(error),
        })?;
        asked.push(made);
    }
    Ok(asked)
}

/// Returns when all of them are over, and tells how they are whenever it looks. One that was deleted is left out.
///
/// An API server that does not answer is waited for: the migration goes on when it is back.
pub async fn follow(
    client: &Client,
    asked: &[StorageVersionMigration],
    mut tell: impl FnMut(&[StorageVersionMigration]),
) -> Result<Vec<StorageVersionMigration>, Error> {
    let api: Api<StorageVersionMigration> = Api::all(client.clone());
    loop {
        match api.list(&ListParams::default()).await {
            Ok(list) => {
                let mut ours = list.items;
                ours.retain(|it| asked.iter().any(|asked| asked.metadata.uid == it.metadata.uid));
                tell(&ours);
                if ours.iter().all(|it| it.phase().is_over()) {
                    return Ok(ours);
                }
            }
            Err(error @ kube::Error::Api(_)) => {
                return Err(Error::request("list StorageVersionMigrations")(error));
            }
            Err(error) => tracing::debug!(cause = %error, "the API server does not answer; waiting for it"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
