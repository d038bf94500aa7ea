//! The migration of a cluster that is not running: etcd and kube-apiserver are started as configured, alone, everything
//! is migrated, and they are stopped. Killed at any point it leaves nothing running, and is gone on with by the next one.

mod server;

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kubernetes::connect::Cluster;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::server::Server;
use crate::controller::{Settled, settle};
use crate::error::Error;
use crate::install;
use crate::metrics::Metrics;
use crate::settings::{OfflineSettings, Settings};

/// For an etcd of a run that was killed to be gone from the data.
const LEFT_BEHIND: Duration = Duration::from_secs(10);
/// An etcd that can't have its data or its port ends at once.
const STANDS_AFTER: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Migrates everything. `stop` ends it early, and in order: what is not known to be migrated then is not called so.
pub async fn migrate(
    offline: &OfflineSettings,
    settings: &Settings,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<Settled, Error> {
    let deadline = Instant::now() + offline.ready_within.get();
    let mut etcd = tokio::select! {
        () = stop.cancelled() => return Err(Error::Interrupted),
        etcd = start_etcd(offline, deadline) => etcd?,
    };
    let done = match Server::start("kube-apiserver", &offline.kube_apiserver) {
        Ok(mut api_server) => {
            let done = tokio::select! {
                done = through(offline, settings, metrics, deadline, stop.clone()) => done,
                error = etcd.ended() => Err(error),
                error = api_server.ended() => Err(error),
            };
            // Where it could not be reached, its log says why.
            let done = done.map_err(|error| api_server.explain(error));
            api_server.stop().await;
            done
        }
        Err(error) => Err(error),
    };
    etcd.stop().await;
    done
}

async fn through(
    offline: &OfflineSettings,
    settings: &Settings,
    metrics: Arc<Metrics>,
    deadline: Instant,
    stop: CancellationToken,
) -> Result<Settled, Error> {
    let cluster = tokio::select! {
        () = stop.cancelled() => return Err(Error::Interrupted),
        cluster = ready(offline, deadline) => cluster?,
    };
    let client = cluster.client()?;
    install::apply(&client, &install::custom_resources()).await?;
    // There is this one API server, whatever the cluster remembers of others.
    let settings = Settings { api_servers: vec![cluster.url().to_string()], ..settings.clone() };
    info!(url = %cluster.url(), "the API server is ready");
    settle(&cluster, &settings, offline.resume_within.get(), metrics, stop).await
}

/// The way to the API server, when it is ready. Its kubeconfig may name files that it makes itself.
async fn ready(offline: &OfflineSettings, deadline: Instant) -> Result<Cluster, Error> {
    loop {
        let error = match Cluster::connect(Some(&offline.kubeconfig)).await {
            Ok(cluster) => {
                let asked = Request::get("/readyz").body(vec![]).map_err(kube::Error::HttpError);
                match cluster
                    .client()?
                    .request_text(asked.map_err(Error::request("ask whether it is ready"))?)
                    .await
                {
                    Ok(_) => return Ok(cluster),
                    Err(error) => Error::request("be ready in time")(error),
                }
            }
            Err(error) => Error::Connect(error),
        };
        if Instant::now() >= deadline {
            return Err(error);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Starts etcd, and waits until it can be reached. One that an interrupted run left has the data for a moment longer.
async fn start_etcd(offline: &OfflineSettings, deadline: Instant) -> Result<Server, Error> {
    let again_until = deadline.min(Instant::now() + LEFT_BEHIND);
    let addresses = etcd_addresses(&offline.kube_apiserver);
    loop {
        let mut etcd = Server::start("etcd", &offline.etcd)?;
        let error = tokio::select! {
            error = etcd.ended() => error,
            () = reached(&addresses) => return Ok(etcd),
            () = tokio::time::sleep_until(deadline) => {
                let error = etcd.error("is not ready in time");
                etcd.stop().await;
                return Err(error);
            }
        };
        if Instant::now() + STANDS_AFTER >= again_until {
            return Err(error);
        }
        info!(%error, "trying again");
        tokio::time::sleep(STANDS_AFTER).await;
    }
}

/// Host and port of each etcd that the API server is told of.
fn etcd_addresses(arguments: &[String]) -> Vec<String> {
    let mut values = vec![];
    for (index, argument) in arguments.iter().enumerate() {
        match argument.strip_prefix("--etcd-servers") {
            Some("") => values.extend(arguments.get(index + 1).map(String::as_str)),
            Some(value) => values.extend(value.strip_prefix('=')),
            None => {}
        }
    }
    let urls = values.into_iter().flat_map(|value| value.split(','));
    let addresses = urls.filter_map(|url| Some(url.split_once("://")?.1.trim_end_matches('/').to_owned()));
    addresses.filter(|address| address.contains(':')).collect()
}

/// Returns when one of them listens, and has for a moment; at once, if there is none to ask.
async fn reached(addresses: &[String]) {
    tokio::time::sleep(STANDS_AFTER).await;
    while !addresses.is_empty() {
        for address in addresses {
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_servers_flags_tell_where_etcd_is() {
        let of = |arguments: &[&str]| {
            etcd_addresses(&arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            of(&["--etcd-servers=http://127.0.0.1:2379,https://[::1]:2/"]),
            ["127.0.0.1:2379", "[::1]:2"]
        );
        assert_eq!(of(&["kube-apiserver", "--etcd-servers", "http://localhost:1"]), ["localhost:1"]);
        assert!(
            of(&["--etcd-servers-overrides=/events#http://127.0.0.1:1", "--etcd-servers=unix:///x"])
                .is_empty()
        );
    }
}
