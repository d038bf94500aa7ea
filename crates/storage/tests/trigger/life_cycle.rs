//! The life of a StorageState, from the first install through an upgrade and back.

use serde_json::json;
use testkit::kube::{storage_hash, stored_version};

use crate::several_servers::OLD_INGRESSES;
use crate::support::*;

const INGRESSES: &str = "ingresses.extensions";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_lives_through_install_outage_upgrade_and_downgrade() {
    let before = &*storage_hash("networking.k8s.io", "v1beta1", "Ingress");
    let after = &*storage_hash("extensions", "v1beta1", "Ingress");
    let mut cluster = cluster().await;
    let ingress = json!({
        "apiVersion": "extensions/v1beta1", "kind": "Ingress", "metadata": {"name": "one"},
        "spec": {"backend": {"serviceName": "somewhere", "servicePort": 80}},
    });
    let path = "/apis/extensions/v1beta1/namespaces/default/ingresses";
    assert_eq!(cluster.create(path, &ingress).await.0, 201);

    // Installed for the first time.
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    until_state(&cluster, INGRESSES, &["Unknown"], before).await;
    controller.passes(1).await;
    controller.stop().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), ALL).await;
    let installed = until_state(&cluster, INGRESSES, &[before], before).await;
    let first = until_migration(&cluster, INGRESSES, &[]).await;

    // Gone for a moment.
    controller.cut_off().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    let state = cluster.get(&state_path(INGRESSES)).await.1;
    assert_eq!((uid(&state), persisted(&state)), (uid(&installed), vec![before]));
    assert_eq!(uid(&until_migration(&cluster, INGRESSES, &[]).await), uid(&first));

    // The cluster is upgraded: the storage version is another.
    cluster.server.restart(&OLD_INGRESSES);
    until_state(&cluster, INGRESSES, &[before, after], after).await;
    let second = until_migration(&cluster, INGRESSES, &[uid(&first)]).await;
    assert_eq!(second["metadata"]["annotations"]["storage.holdfast/version-hash"], after);

    // And downgraded again, before anything was migrated.
    cluster.server.restart(&[]);
    let state = until_state(&cluster, INGRESSES, &[before, after], before).await;
    let third = until_migration(&cluster, INGRESSES, &[uid(&second)]).await;
    assert_eq!(third["metadata"]["annotations"]["storage.holdfast/version-hash"], before);
    assert_eq!(uid(&state), uid(&installed), "it was never lost");
    controller.stop().await;

    // Upgraded for good, with a migrator.
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), ALL).await;
    until_state(&cluster, INGRESSES, &[before], before).await;
    cluster.server.restart(&OLD_INGRESSES);
    until_state(&cluster, INGRESSES, &[after], after).await;
    let stored = cluster.etcd.get_raw("/registry/ingress/").await;
    let versions: Vec<String> = stored.iter().map(|(_, bytes)| stored_version(bytes)).collect();
    assert_eq!(versions, ["extensions/v1beta1"]);
    controller.stop().await;
}
