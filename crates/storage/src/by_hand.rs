//! Migrations that a person asks for: after a key rotation, after a failure whose cause is mended, or all of them.

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use kubernetes::connect::Cluster;
use kubernetes::request::RequestError;
use logic::storage::Resource;
use tokio::time::Instant;

use crate::api::StorageVersionMigration;
use crate::discovery::{Served, discover};
use crate::error::Error;

/// How often to look, while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A server that has just started does not know every resource, nor every right, for a moment.
const STARTING: Duration = Duration::from_secs(6);

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
/// An API server that does not answer, or can't at the moment, is waited for: the migration goes on when it is back. One
/// that does not know who asks is waited for as long as that may pass.
pub async fn follow(
    cluster: &Cluster,
    asked: &[StorageVersionMigration],
    mut tell: impl FnMut(&[StorageVersionMigration]),
) -> Result<Vec<StorageVersionMigration>, Error> {
    let api: Api<StorageVersionMigration> = Api::all(cluster.client()?);
    let mut refused: Option<Instant> = None;
    loop {
        let listed = api.list(&ListParams::default()).await;
        match listed.map_err(RequestError::of("list StorageVersionMigrations")) {
            Ok(list) => {
                refused = None;
                let mut ours = list.items;
                ours.retain(|it| asked.iter().any(|asked| asked.metadata.uid == it.metadata.uid));
                tell(&ours);
                if ours.iter().all(|it| it.phase().is_over()) {
                    return Ok(ours);
                }
            }
            Err(error) if error.is_passing() && error.code() != Some(401) => {
                refused = None;
                tracing::debug!(cause = %error, "the API server does not answer; waiting for it");
            }
            Err(error) => {
                let stranger = error.code() == Some(401);
                let patience = if stranger { cluster.credential().patience() } else { STARTING };
                if refused.get_or_insert_with(Instant::now).elapsed() >= patience {
                    return Err(match stranger {
                        true => Error::Unauthorized(cluster.credential().clone()),
                        false => error.into(),
                    });
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
