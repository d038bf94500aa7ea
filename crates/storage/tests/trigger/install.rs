//! The first look at a cluster, and the looks after it.

use crate::support::*;

#[tokio::test]
async fn a_fresh_cluster_is_taken_in_and_settled() {
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    eprintln!("pass_seconds {}", controller.metric("pass_seconds"));
    for state in cluster.list(STATES).await {
        eprintln!("{} {:?} {}", name(&state), persisted(&state), current(&state));
    }
    controller.stop().await;
}
