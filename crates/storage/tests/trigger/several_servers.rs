//! API servers that are exchanged for others, one after the other.

use serde_json::json;
use testkit::kube::{Options, storage_hash};

use crate::support::*;

const INGRESSES: &str = "ingresses.extensions";
/// With these, ingresses are stored as the oldest version that there is.
pub const OLD_INGRESSES: [&str; 2] = [
    "--runtime-config=networking.k8s.io/v1=false,networking.k8s.io/v1beta1=false",
    "--disable-admission-plugins=DefaultIngressClass",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_two_servers_disagree_nothing_is_migrated_and_afterwards_it_is() {
    let old = &*storage_hash("extensions", "v1beta1", "Ingress");
    let new = &*storage_hash("networking.k8s.io", "v1beta1", "Ingress");
    let mut cluster = cluster().await;
    let mut other = cluster.another(Options::default());
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
    let first = until_migration(&cluster, INGRESSES, &[]).await;
    succeed(&cluster, &first).await;
    until_state(&cluster, INGRESSES, &[new], new).await;

    other.restart(&OLD_INGRESSES);
    let state = cluster.until(&state_path(INGRESSES), |_, state| current(state) == "Unknown").await;
    assert_eq!(persisted(&state), [new, old]);
    while !migrations_of(&cluster, INGRESSES).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(controller.metric("disputed_resources") >= 1.0);

    // One that is away may store anything: nothing is decided.
    other.kill();
    until(|| controller.metric("pass_failures_total") >= 2.0).await;
    let unchanged = cluster.get(&state_path(INGRESSES)).await.1;
    assert_eq!((current(&unchanged), persisted(&unchanged)), ("Unknown", vec![new, old]));

    // The other way round, now that both are exchanged.
    other.restart(&OLD_INGRESSES);
    cluster.server.restart(&OLD_INGRESSES);
    until_state(&cluster, INGRESSES, &[new, old], old).await;
    let second = until_migration(&cluster, INGRESSES, &[uid(&first)]).await;
    succeed(&cluster, &second).await;
    until_state(&cluster, INGRESSES, &[old], old).await;
    controller.stop().await;
}
