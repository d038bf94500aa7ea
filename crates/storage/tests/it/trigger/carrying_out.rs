//! Migrations as a whole controller carries them out.

use std::time::Duration;

use serde_json::{Value, json};
use storage::controller::Options;
use storage::settings::Settings;
use testkit::kube::throttle::Asked;
use testkit::kube::{AggregatedServer, Client, Fault, Throttle, aggregated};

use crate::trigger::support::*;

/// It carries out what others ask for, and asks for nothing itself.
const MIGRATOR: Options = Options { trigger: false, migrator: true, lead: false };

async fn ask_for(client: &Client, name: &str, group: &str, version: &str, resource: &str) {
    let migration = json!({
        "apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration", "metadata": {"name": name},
        "spec": {"resource": {"group": group, "version": version, "resource": resource}},
    });
    let (status, said) = client.create(MIGRATIONS, &migration).await;
    assert_eq!(status, 201, "{said}");
}

fn holds(migration: &Value, kind: &str) -> bool {
    let conditions = migration["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] == kind && it["status"] == "True")
}

#[tokio::test]
async fn without_a_trigger_any_number_of_migrations_ends_and_so_does_the_controller() {
    let cluster = cluster().await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), MIGRATOR).await;
    // More than are kept for somebody who never reads them.
    for number in 0..70 {
        ask_for(&cluster, &format!("empty-{number:02}"), "", "v1", "replicationcontrollers").await;
    }
    for number in 0..70 {
        let path = format!("{MIGRATIONS}/empty-{number:02}");
        cluster.until(&path, |_, migration| holds(migration, "Succeeded")).await;
        cluster.delete(&path).await;
    }
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_does_not_keep_the_others_from_their_turn() {
    let cluster = cluster().await;
    let server = AggregatedServer::start(&cluster.keys);
    server.register(&cluster).await;
    server.fill(20);
    server.store_as("v2");
    let hash = server.hash();
    server.down();
    // As the trigger asked for it, while the server was there.
    ask_for(&cluster, "away", aggregated::GROUP, aggregated::VERSION, aggregated::RESOURCE).await;
    let stamp = json!({"metadata": {"annotations": {
        "storage.holdfast/version-hash": hash, "storage.holdfast/state-uid": "", "storage.holdfast/change": "1",
    }}});
    let away = format!("{MIGRATIONS}/away");
    assert_eq!(cluster.patch(&away, &stamp).await.0, 200);
    let one_place = Settings { migrations_at_once: 1, ..settings(600) };
    let controller = Controller::start(&cluster.kubeconfig("admin"), &one_place, MIGRATOR).await;
    let absent = |migration: &Value| migration["status"]["conditions"][0]["reason"] == "ServerAbsent";
    cluster.until(&away, |_, migration| absent(migration)).await;

    ask_for(&cluster, "there", "", "v1", "replicationcontrollers").await;
    cluster.until(&format!("{MIGRATIONS}/there"), |_, migration| holds(migration, "Succeeded")).await;
    assert!(!holds(&cluster.get(&away).await.1, "Failed"));
    server.up();
    cluster.until(&away, |_, migration| holds(migration, "Succeeded")).await;
    assert!(server.stored().iter().all(|(_, version)| version == "v2"));
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_stop_as_soon_as_a_migration_is_deleted() {
    const COUNT: usize = 1000;
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", COUNT, 20).await;
    cluster.flip_storage("v2").await;
    let proxy = Throttle::start(&cluster.server);
    let is_put = |asked: &Asked| asked.method == "PUT" && asked.path.contains("/widgets/");
    proxy.plan(move |asked| match () {
        () if is_put(asked) => Fault::Delay(Duration::from_millis(50)),
        // The migrator can't find out by itself that its object is gone.
        () if asked.path.contains("/unwanted/status") => Fault::Delay(Duration::from_secs(3600)),
        () => Fault::None,
    });
    let kubeconfig = cluster.server.kubeconfig_to("admin", &proxy.url());
    let few = Settings { writes_at_once: 4, ..settings(600) };
    let controller = Controller::start(&kubeconfig, &few, MIGRATOR).await;
    ask_for(&cluster, "unwanted", "stable.example.com", "v1", "widgets").await;
    proxy.until_asked(50, is_put).await;
    assert_eq!(cluster.delete(&format!("{MIGRATIONS}/unwanted")).await.0, 200);
    // What the watch tells comes in order: when this is done, the deletion is known.
    ask_for(&cluster, "after", "", "v1", "replicationcontrollers").await;
    cluster.until(&format!("{MIGRATIONS}/after"), |_, migration| holds(migration, "Succeeded")).await;
    let written = proxy.count(is_put);
    assert!(written < COUNT, "it was through before it was deleted");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(proxy.count(is_put), written, "not one more write began");
    controller.stop().await;
}
