//! `holdfast agent run --cluster`: the agent of a Kubernetes cluster, of which one at a time leads.

use std::sync::Arc;

use ::agent::cluster::{self, ClusterError, Parts};
use ::agent::metrics::Metrics;
use ::agent::quarantine::{Quarantine, Sources};
use ::agent::settings::Settings;
use ::agent::{Agent, RunError, Stop};
use kubernetes::connect::Cluster;
use logic::exit::Exit;
use tokio_util::sync::CancellationToken;

use super::begin::runtime;
use super::gate;
use super::run::admin_pages;
use super::site::Site;
use crate::failure::{Failure, Result};

/// Where its Deployment says what it is.
const POD: &str = "HOLDFAST_POD";
const NAMESPACE: &str = "HOLDFAST_NAMESPACE";

pub fn run(mut settings: Settings, storage: ::storage::settings::Settings) -> Result<Exit> {
    if let Ok(pod) = std::env::var(POD) {
        settings.cluster.pod = Some(pod);
    }
    if let Ok(namespace) = std::env::var(NAMESPACE) {
        settings.cluster.namespace = namespace;
    }
    runtime()?.block_on(async {
        let metrics = Arc::new(Metrics::default());
        let pages = admin_pages(settings.admin, Arc::clone(&metrics)).await?;
        let stop = CancellationToken::new();
        let signals = stop.clone();
        tokio::spawn(async move {
            service::terminated().await;
            service::notify("STOPPING=1");
            signals.cancel();
        });
        let connection = Cluster::connect(None).await.map_err(|error| {
            Failure::new(
                Exit::TryAgain,
                &error,
                "see KUBECONFIG, or run it in a pod with its service account",
            )
        })?;
        service::notify("READY=1");
        let in_cluster = settings.cluster.clone();
        let gate = gate::of_cluster(&connection, storage);
        let ended = cluster::lead(&connection, &in_cluster, Some(&gate), &stop, |parts, over| {
            term(parts, over, settings.clone(), Arc::clone(&metrics))
        })
        .await;
        if let Some(pages) = pages {
            pages.abort();
        }
        match ended {
            Ok(Some(failure)) => Err(failure),
            Ok(None) => Ok(Exit::Done),
            Err(error) => Err(Failure::new(Exit::TryAgain, &error, error.way_out())),
        }
    })
}

/// For as long as it leads; what it says ends the program, and Kubernetes starts it again.
async fn term(
    Parts { desk, machine }: Parts,
    over: CancellationToken,
    settings: Settings,
    metrics: Arc<Metrics>,
) -> Option<Failure> {
    let stop = Arc::new(Stop::default());
    let asked = Arc::clone(&stop);
    let ending = tokio::spawn(async move {
        over.cancelled().await;
        asked.stop();
    });
    let begun = async {
        let unfit = |error: ::agent::quarantine::Refusal| Failure::new(Exit::Usage, &error, error.way_out());
        let site = Site::of(&settings)?;
        let id = desk.cluster_id().await?;
        let agent = Agent {
            quarantine: Quarantine::open(&settings.directory.join("quarantine")).map_err(unfit)?,
            sources: Sources::of(&settings, site.map(|site| Arc::new(site) as _)).map_err(unfit)?,
            id,
            machine,
            desk,
            settings,
            stop,
            metrics,
        };
        agent.run(None).await.map_err(|error: RunError| Failure::from(error))
    };
    let ended = begun.await;
    ending.abort();
    ended.err()
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        Self::new(Exit::TryAgain, &error, error.way_out())
    }
}
