//! API servers that are exchanged for others, one after the other.

use serde_json::json;
use testkit::kube::{BuiltIn, built_in};

use crate::trigger::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_two_servers_disagree_nothing_is_migrated_and_afterwards_it_is() {
    two_servers_disagree(built_in::CLAIM_TEMPLATES).await;
}

pub async fn two_servers_disagree(built_in: BuiltIn) {
    let resource = built_in.resource;
    let (new, old) = (&*built_in.hash(), &*built_in.other_hash());
    let mut cluster = cluster_with(built_in.options()).await;
    let mut other = cluster.another(built_in.options());
    // As the API servers of a cluster name themselves.
    let port =
        |port: u16| json!({"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port}]});
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "kubernetes", "namespace": "default"},
        "subsets": [port(cluster.server.port()), port(other.port())],
    });
    // An API server takes no loopback addresses from others, so they are written past it.
    let (key, path) = (
        "/registry/services/endpoints/default/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
    );
    cluster.etcd.put_raw(key, endpoints.to_string().as_bytes()).await;
    cluster.until(path, |status, _| status == 200).await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    let first = until_migration(&cluster, resource, &[]).await;
    succeed(&cluster, &first).await;
    until_state(&cluster, resource, &[new], new).await;

    other.restart(built_in.other_flags);
    let state = cluster.until(&state_path(resource), |_, state| current(state) == "Unknown").await;
    assert_eq!(persisted(&state), [new, old]);
    while !migrations_of(&cluster, resource).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    // Metrics follow at the end of the pass.
    until(|| controller.metric("disputed_resources") >= 1.0).await;

    // One that is away may store anything: nothing is decided.
    other.kill();
    until(|| controller.metric("pass_failures_total") >= 2.0).await;
    let unchanged = cluster.get(&state_path(resource)).await.1;
    assert_eq!((current(&unchanged), persisted(&unchanged)), ("Unknown", vec![new, old]));

    // The other way round, now that both are exchanged.
    other.restart(built_in.other_flags);
    cluster.server.restart(built_in.other_flags);
    until_state(&cluster, resource, &[new, old], old).await;
    let second = until_migration(&cluster, resource, &[uid(&first)]).await;
    succeed(&cluster, &second).await;
    until_state(&cluster, resource, &[old], old).await;
    controller.stop().await;
}
