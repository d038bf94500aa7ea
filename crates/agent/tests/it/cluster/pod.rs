//! What runs in the agent's pod: this test program, asked for the one test here.

use std::path::PathBuf;
use std::sync::Arc;

use agent::cluster::{Parts, Settings as InCluster, lead};
use agent::metrics::Metrics;
use agent::quarantine::{Quarantine, Sources};
use agent::settings::Settings;
use agent::{Agent, Stop};
use kubernetes::connect::Cluster as Connection;
use tokio_util::sync::CancellationToken;

/// The command of its container.
pub fn command() -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "--ignored", "--exact", "cluster::pod::child_process_of_the_kubelet", "--nocapture"]
        .map(str::to_owned)
        .to_vec()
}

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: only the kubelet of these tests starts this"))
}

#[test]
#[ignore = "started by the kubelet that the other tests play"]
fn child_process_of_the_kubelet() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run());
}

async fn run() {
    tracing::info!(of = variable("AGENT_RELEASE"), "the agent of a release starts");
    let kubeconfig = PathBuf::from(variable("KUBECONFIG"));
    let directory = PathBuf::from(variable("AGENT_DIRECTORY")).join(variable("HOLDFAST_POD"));
    let in_cluster = InCluster {
        namespace: variable("HOLDFAST_NAMESPACE"),
        pod: Some(variable("HOLDFAST_POD")),
        lease: "2s".parse().unwrap(),
        patience: variable("AGENT_PATIENCE").parse().unwrap(),
        ..InCluster::default()
    };
    let settings = Settings {
        keys: Some(variable("AGENT_KEYS"))
            .filter(|it| !it.is_empty())
            .map(PathBuf::from)
            .into_iter()
            .collect(),
        period: "1s".parse().unwrap(),
        reserve: 0,
        preconditions: vec![],
        directory,
        ..Settings::default()
    };
    let stop = CancellationToken::new();
    let signals = stop.clone();
    tokio::spawn(async move {
        service::terminated().await;
        signals.cancel();
    });
    let connection = Connection::connect(Some(&kubeconfig)).await.unwrap();
    let ended =
        lead(&connection, &in_cluster, None, &stop, |parts, over| term(parts, over, settings.clone())).await;
    tracing::info!(ended = ?ended, "the agent ends");
}

async fn term(Parts { desk, machine }: Parts, over: CancellationToken, settings: Settings) -> Option<()> {
    let stop = Arc::new(Stop::default());
    let asked = Arc::clone(&stop);
    tokio::spawn(async move {
        over.cancelled().await;
        asked.stop();
    });
    let agent = Agent {
        quarantine: Quarantine::open(&settings.directory.join("quarantine")).unwrap(),
        sources: Sources::of(&settings, None).unwrap(),
        id: desk.cluster_id().await.unwrap(),
        machine,
        desk,
        settings,
        stop,
        metrics: Arc::new(Metrics::default()),
    };
    match agent.run(None).await {
        Ok(ended) => {
            tracing::info!(?ended, "a term ends");
            None
        }
        Err(error) => {
            tracing::error!(cause = oci::chain(&error), "a term ends badly");
            Some(())
        }
    }
}
