//! Resources that another server has.

use testkit::kube::{AggregatedServer, aggregated};

use crate::trigger::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_resource_is_taken_in_and_its_absence_holds_nothing_up() {
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    let server = AggregatedServer::start(&cluster.keys);
    let readings = &*format!("{}.{}", aggregated::RESOURCE, aggregated::GROUP);
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    assert_eq!(cluster.get(&state_path(readings)).await.0, 404);
    // It comes later, and is taken in without waiting for the next period.
    server.register(&cluster).await;
    let first_hash = server.hash();
    let state = until_state(&cluster, readings, &["Unknown"], &first_hash).await;
    let first = until_migration(&cluster, readings, &[]).await;
    succeed(&cluster, &first).await;
    until_state(&cluster, readings, &[&first_hash], &first_hash).await;

    server.down();
    until(|| controller.metric("unreadable_groups") == 1.0).await;
    cluster.flip_storage("v2").await;
    cluster.until(&state_path(WIDGETS), |_, state| current(state) == widget_hash("v2")).await;
    let unchanged = cluster.get(&state_path(readings)).await.1;
    assert_eq!((uid(&unchanged), persisted(&unchanged)), (uid(&state), vec![&*first_hash]));

    // It comes back with another storage version.
    server.store_as("v2");
    server.up();
    let hash = server.hash();
    assert_ne!(hash, first_hash);
    until_state(&cluster, readings, &[&first_hash, &hash], &hash).await;
    until_migration(&cluster, readings, &[uid(&first)]).await;
    controller.stop().await;
}
