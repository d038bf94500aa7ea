//! The life of a StorageState, from the first install through an upgrade and back.

use testkit::kube::{BuiltIn, built_in, stored_version};

use crate::trigger::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_lives_through_install_outage_upgrade_and_downgrade() {
    life_cycle(built_in::CLAIM_TEMPLATES).await;
}

pub async fn life_cycle(built_in: BuiltIn) {
    let resource = built_in.resource;
    let (before, after) = (&*built_in.hash(), &*built_in.other_hash());
    let mut cluster = cluster_with(built_in.options()).await;
    built_in.create(&cluster, "one").await;

    // Installed for the first time.
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    until_state(&cluster, resource, &["Unknown"], before).await;
    controller.passes(1).await;
    controller.stop().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), ALL).await;
    let installed = until_state(&cluster, resource, &[before], before).await;
    let first = until_migration(&cluster, resource, &[]).await;

    // Gone for a moment.
    controller.cut_off().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    let state = cluster.get(&state_path(resource)).await.1;
    assert_eq!((uid(&state), persisted(&state)), (uid(&installed), vec![before]));
    assert_eq!(uid(&until_migration(&cluster, resource, &[]).await), uid(&first));

    // The cluster is upgraded: the storage version is another.
    cluster.server.restart(built_in.other_flags);
    until_state(&cluster, resource, &[before, after], after).await;
    let second = until_migration(&cluster, resource, &[uid(&first)]).await;
    assert_eq!(second["metadata"]["annotations"]["storage.holdfast/version-hash"], after);

    // And downgraded again, before anything was migrated.
    cluster.server.restart(&[]);
    let state = until_state(&cluster, resource, &[before, after], before).await;
    let third = until_migration(&cluster, resource, &[uid(&second)]).await;
    assert_eq!(third["metadata"]["annotations"]["storage.holdfast/version-hash"], before);
    assert_eq!(uid(&state), uid(&installed), "it was never lost");
    controller.stop().await;

    // Upgraded for good, with a migrator.
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), ALL).await;
    until_state(&cluster, resource, &[before], before).await;
    cluster.server.restart(built_in.other_flags);
    until_state(&cluster, resource, &[after], after).await;
    let stored = cluster.etcd.get_raw(built_in.in_etcd).await;
    let versions: Vec<String> = stored.iter().map(|(_, bytes)| stored_version(bytes)).collect();
    assert_eq!(versions, [built_in.stored_otherwise]);
    controller.stop().await;
}
