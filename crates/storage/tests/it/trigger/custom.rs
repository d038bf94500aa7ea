//! Custom resources, whose storage versions change at any moment.

use serde_json::{Value, json};
use testkit::kube::{Client, Throttle, widgets_crd};

use crate::trigger::support::*;

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.stable.example.com";

/// Changes the storage version and does not wait for anything.
async fn store_as(client: &Client, version: &str) {
    let versions = widgets_crd(version, &["v1", "v2", "v3"], None)["spec"]["versions"].clone();
    let (status, said) = client.patch(CRD, &json!({"spec": {"versions": versions}})).await;
    assert_eq!(status, 200, "{said}");
}

async fn settle(client: &Client, version: &str, but: &[String]) -> Value {
    let migration = until_migration(client, WIDGETS, but).await;
    succeed(client, &migration).await;
    until_state(client, WIDGETS, &[&widget_hash(version)], &widget_hash(version)).await;
    migration
}

#[tokio::test]
async fn each_change_is_seen_and_a_way_there_and_back_leaves_both() {
    let (a, b) = (&*widget_hash("v1"), &*widget_hash("v2"));
    let cluster = cluster().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    // It is there only after the first look, and nobody waits for the next.
    cluster.install_widgets("v1", &["v1", "v2", "v3"], None).await;
    until_state(&cluster, WIDGETS, &["Unknown"], a).await;
    let first = settle(&cluster, "v1", &[]).await;

    store_as(&cluster, "v2").await;
    until_state(&cluster, WIDGETS, &[a, b], b).await;
    let second = until_migration(&cluster, WIDGETS, &[uid(&first)]).await;
    assert_eq!(second["metadata"]["annotations"]["storage.holdfast/version-hash"], b);
    // Back before anything is migrated.
    store_as(&cluster, "v1").await;
    until_state(&cluster, WIDGETS, &[a, b], a).await;
    let third = until_migration(&cluster, WIDGETS, &[uid(&first), uid(&second)]).await;
    assert_eq!(third["metadata"]["annotations"]["storage.holdfast/version-hash"], a);
    let third = settle(&cluster, "v1", &[uid(&first), uid(&second)]).await;

    // There and back at once: only the watch can have seen it.
    store_as(&cluster, "v2").await;
    store_as(&cluster, "v1").await;
    let state = cluster.until(&state_path(WIDGETS), |_, state| persisted(state).len() == 2).await;
    assert_eq!(persisted(&state), [a, b]);
    let state = until_state(&cluster, WIDGETS, &[a, b], a).await;
    let fourth = until_migration(&cluster, WIDGETS, &[uid(&third)]).await;
    assert_eq!(fourth["metadata"]["annotations"]["storage.holdfast/version-hash"], a);
    settle(&cluster, "v1", &[uid(&third)]).await;

    // With its definition it goes, and comes back as something new.
    cluster.delete(CRD).await;
    cluster.until(&state_path(WIDGETS), |status, _| status == 404).await;
    assert_eq!(migrations_of(&cluster, WIDGETS).await, Vec::<Value>::new());
    cluster.until(CRD, |status, _| status == 404).await;
    cluster.install_widgets("v2", &["v1", "v2", "v3"], None).await;
    let anew = until_state(&cluster, WIDGETS, &["Unknown"], b).await;
    assert_ne!(uid(&anew), uid(&state));
    assert_eq!(controller.metric("passes_total"), 1.0, "all of this was told, none of it waited for");
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_while_the_watch_is_cut_is_known_or_said_to_be_unknown() {
    let (a, b, c) = (&*widget_hash("v1"), &*widget_hash("v2"), &*widget_hash("v3"));
    let mut cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2", "v3"], None).await;
    let proxy = Throttle::start(&cluster.server);
    let kubeconfig = cluster.server.kubeconfig_to("admin", &proxy.url());
    let controller = Controller::start(&kubeconfig, &settings(600), TRIGGER).await;
    controller.passes(1).await;
    let first = settle(&cluster, "v1", &[]).await;

    // The server still knows what happened: the watch goes on where it was.
    proxy.down();
    store_as(&cluster, "v2").await;
    store_as(&cluster, "v1").await;
    proxy.up();
    until_state(&cluster, WIDGETS, &[a, b], a).await;
    let second = settle(&cluster, "v1", &[uid(&first)]).await;

    // It has forgotten, and the definition changed more than once.
    proxy.down();
    for version in ["v2", "v3", "v2"] {
        store_as(&cluster, version).await;
    }
    cluster.server.restart(&[]);
    cluster.until_widgets_stored_as("v2", &["v1", "v2", "v3"]).await;
    proxy.up();
    let state = cluster.until(&state_path(WIDGETS), |_, state| current(state) == b).await;
    assert!(persisted(&state).contains(&"Unknown") || persisted(&state).contains(&c), "{state}");
    assert!(persisted(&state).contains(&a) && persisted(&state).contains(&b), "{state}");
    let third = settle(&cluster, "v2", &[uid(&second)]).await;

    // It has forgotten, but there was only one change.
    proxy.down();
    store_as(&cluster, "v3").await;
    cluster.server.restart(&[]);
    cluster.until_widgets_stored_as("v3", &["v1", "v2", "v3"]).await;
    proxy.up();
    until_state(&cluster, WIDGETS, &[b, c], c).await;
    settle(&cluster, "v3", &[uid(&third)]).await;
    controller.stop().await;
}
