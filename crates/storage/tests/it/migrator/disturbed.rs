//! A server that is busy, restarted, forgetful, or not there; and people who work meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use storage::migrator::Ended;
use testkit::kube::{
    AggregatedServer, ConversionWebhook, Fault, Options, aggregated, storage_hash, widgets_path,
};
use tokio_util::sync::CancellationToken;

use crate::migrator::ground::{Ground, WIDGETS_IN_ETCD, holds, is_put_of_an_object};

fn all_v2(count: usize) -> Vec<(String, usize)> {
    vec![("stable.example.com/v2".to_owned(), count)]
}

async fn ground_with_widgets(count: usize) -> Ground {
    with_widgets(Ground::new().await, count).await
}

async fn with_widgets(ground: Ground, count: usize) -> Ground {
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", count, 20).await;
    ground.cluster.flip_storage("v2").await;
    ground
}

#[tokio::test]
async fn a_busy_server_is_left_alone_for_as_long_as_it_asks() {
    let ground = ground_with_widgets(300).await;
    // In plain text, as API servers do it.
    ground.proxy.refuse_every(60, 1);
    let (ended, migration) = ground.run(ground.ask_for_widgets("busy").await).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(300));
    assert_eq!(migration["status"]["progress"]["migrated"], 300);
    let refused = ground.proxy.count(|asked| asked.status == Some(429));
    assert!((1..=7).contains(&refused), "{refused}");
    assert_eq!(ground.puts().iter().filter(|asked| asked.status == Some(200)).count(), 300);
    assert!(ground.proxy.most_writes_at_once() <= 16);
}

#[tokio::test]
async fn what_somebody_else_writes_or_deletes_meanwhile_is_done() {
    let ground = ground_with_widgets(50).await;
    let listed_then_held = Arc::new(AtomicBool::new(true));
    let held = Arc::clone(&listed_then_held);
    ground.proxy.plan(move |asked| match is_put_of_an_object(asked) && held.load(Ordering::SeqCst) {
        true => Fault::Answer(503, "starting".to_owned()),
        false => Fault::None,
    });
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("busy-people").await);
    ground.proxy.until_asked(1, is_put_of_an_object).await;
    let path = |name: &str| format!("{}/{name}", widgets_path("v1"));
    let label = json!({"metadata": {"labels": {"mine": "yes"}}});
    assert_eq!(ground.cluster.patch(&path("widget-00005"), &label).await.0, 200);
    assert_eq!(ground.cluster.delete(&path("widget-00006")).await.0, 200);
    listed_then_held.store(false, Ordering::SeqCst);
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(49));
    assert_eq!(ground.cluster.get(&path("widget-00005")).await.1["metadata"]["labels"]["mine"], "yes");
    let answered = |name: &str, status| {
        ground.puts().iter().any(|asked| asked.path.ends_with(name) && asked.status == Some(status))
    };
    assert!(answered("widget-00005", 409));
    assert!(answered("widget-00006", 404) || answered("widget-00006", 409));
    assert_eq!(ground.migration("busy-people").await.status.unwrap().progress.unwrap().failed, 0);
}

#[tokio::test]
async fn an_object_that_was_deleted_is_not_brought_back_where_an_update_may_create() {
    let ground = Ground::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    for name in ["kept", "deleted"] {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name}, "rules": []});
        assert_eq!(ground.cluster.create(roles, &role).await.0, 201);
    }
    let held = Arc::new(AtomicBool::new(true));
    let holding = Arc::clone(&held);
    ground.proxy.plan(move |asked| match is_put_of_an_object(asked) && holding.load(Ordering::SeqCst) {
        true => Fault::Answer(503, "starting".to_owned()),
        false => Fault::None,
    });
    let migration = ground.ask_for("roles", "rbac.authorization.k8s.io", "v1", "roles").await;
    let (_stop, running) = ground.spawn(migration);
    ground.proxy.until_asked(1, is_put_of_an_object).await;
    assert_eq!(ground.cluster.delete(&format!("{roles}/deleted")).await.0, 200);
    held.store(false, Ordering::SeqCst);
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(ground.cluster.get(&format!("{roles}/deleted")).await.0, 404);
    assert_eq!(ground.cluster.get(&format!("{roles}/kept")).await.0, 200);
}

#[tokio::test]
async fn an_expired_token_restarts_the_list_and_not_the_work() {
    let ground = Ground::with(Options::default().without_snapshots(), "admin").await;
    let ground = with_widgets(ground, 1200).await;
    ground.proxy.plan(|asked| match is_put_of_an_object(asked) {
        true => Fault::Delay(Duration::from_millis(20)),
        false => Fault::None,
    });
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("forgetful").await);
    ground.proxy.until_asked(60, is_put_of_an_object).await;
    ground.cluster.etcd.compact().await;
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert!(ground.proxy.count(|asked| asked.status == Some(410)) >= 1);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(1200));
    assert_eq!(ground.puts().len(), 1200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_is_waited_for() {
    let mut ground = ground_with_widgets(1500).await;
    // Not through the proxy: connections must break.
    ground.client = crate::migrator::ground::client(&ground.cluster.kubeconfig("admin")).await;
    let before = ground.cluster.etcd.revision().await;
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("outage").await);
    while ground.cluster.etcd.revision().await < before + 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ground.cluster.server.kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    ground.cluster.server.restart(&[]);
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(1500));
    let status = ground.migration("outage").await.status.unwrap();
    assert_eq!((status.progress.unwrap().failed, status.failures.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_is_held_against_no_object() {
    let mut ground = ground_with_widgets(600).await;
    let puts = |ground: &Ground| ground.puts().len();
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("no-database").await);
    ground.proxy.until_asked(100, is_put_of_an_object).await;
    ground.cluster.etcd.kill();
    // Longer than an object is tried for, if it is its own fault.
    let before = puts(&ground);
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!running.is_finished());
    assert!(puts(&ground) - before < 600, "it is asked for rarely");
    ground.cluster.etcd.restart();
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(600));
    assert_eq!(ground.migration("no-database").await.status.unwrap().progress.unwrap().failed, 0);
}

#[tokio::test]
async fn a_storage_version_that_changes_meanwhile_is_never_called_migrated() {
    let ground = ground_with_widgets(400).await;
    ground.proxy.plan(|asked| match is_put_of_an_object(asked) {
        true => Fault::Delay(Duration::from_millis(20)),
        false => Fault::None,
    });
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("moving").await);
    ground.proxy.until_asked(100, is_put_of_an_object).await;
    ground.cluster.flip_storage("v1").await;
    ground.proxy.heal();
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    let migration = ground.migration("moving").await;
    let target = storage_hash("stable.example.com", "v1", "Widget");
    assert_eq!(migration.stamp().unwrap().target.as_str(), target);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, [("stable.example.com/v1".to_owned(), 400)]);
    assert_eq!(migration.status.unwrap().progress.unwrap().migrated, 400);
    assert_eq!(ground.stored_versions().await, json!(["v1"]));
}

#[tokio::test]
async fn a_conversion_webhook_that_is_down_is_asked_for_rarely_and_given_up_in_the_end() {
    let mut ground = Ground::new().await;
    let webhook = ConversionWebhook::start(&ground.cluster.keys);
    ground.cluster.install_widgets("v1", &["v1", "v2"], Some(&webhook.conversion())).await;
    ground.cluster.create_widgets("v1", 200, 20).await;
    ground.cluster.flip_storage("v2").await;
    let lists = |ground: &Ground| ground.proxy.count(|asked| asked.path.contains("/widgets?limit="));

    // Read as v2, so that nothing can be listed without it.
    webhook.down();
    ground.settings.patience = logic::period::Period::seconds(5);
    let migration = ground.ask_for("down", "stable.example.com", "v2", "widgets").await;
    let (ended, migration) = ground.run(migration).await;
    assert_eq!(ended, Ended::Failed);
    let (kind, reason, message) = holds(&migration);
    assert_eq!((kind.as_str(), reason.as_str()), ("Failed", "ListFailed"));
    assert!(message.contains("conversion webhook"), "{message}");
    assert!(lists(&ground) <= 6, "{} lists", lists(&ground));
    assert_eq!(ground.stored_versions().await, json!(["v1", "v2"]));

    ground.settings.patience = logic::period::Period::seconds(120);
    ground.proxy.forget();
    let migration = ground.ask_for("up-again", "stable.example.com", "v2", "widgets").await;
    let (_stop, running) = ground.spawn(migration);
    ground.proxy.until_asked(2, |asked| asked.path.contains("/widgets?limit=")).await;
    webhook.up();
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, all_v2(200));
    let in_etcd = ground.cluster.etcd.get_raw(WIDGETS_IN_ETCD).await;
    assert!(in_etcd.iter().all(|(_, bytes)| String::from_utf8_lossy(bytes).contains("stuffing")));
    assert_eq!(ground.stored_versions().await, json!(["v2"]));
}

#[tokio::test]
async fn whoever_follows_a_migration_waits_while_the_server_can_not_answer() {
    let ground = Ground::new().await;
    let asked = ground.ask_for("followed", "", "v1", "replicationcontrollers").await;
    // As one that is busy, and one that has just started.
    let mut looks = 0;
    ground.proxy.plan(move |asked| {
        let look = asked.method == "GET" && asked.resource().ends_with("/storageversionmigrations");
        looks += u32::from(look);
        match looks {
            1 if look => Fault::TooMany(1),
            2 if look => Fault::Answer(500, "etcd is away".to_owned()),
            3 if look => Fault::Answer(503, "starting".to_owned()),
            4 if look => Fault::Answer(404, "not known yet".to_owned()),
            _ => Fault::None,
        }
    });
    let (_stop, running) = ground.spawn(asked.clone());
    let ended = storage::by_hand::follow(&ground.connection, &[asked], |_| {}).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    let looks = ground.proxy.count(|asked| asked.resource().ends_with("/storageversionmigrations"));
    assert!(looks >= 5, "{looks}");
}

#[tokio::test]
async fn an_aggregated_resource_is_migrated_and_waited_for_while_others_go_on() {
    let ground = Ground::new().await;
    let server = AggregatedServer::start(&ground.cluster.keys);
    server.register(&ground.cluster).await;
    server.fill(60);
    server.store_as("v2");
    server.down();
    let readings =
        ground.ask_for("readings", aggregated::GROUP, aggregated::VERSION, aggregated::RESOURCE).await;
    let migrator = ground.migrator();
    let stop = CancellationToken::new();
    let waiting = tokio::spawn({
        let (migrator, stop) = (migrator.clone(), stop.clone());
        async move { migrator.run(readings, stop).await }
    });
    let namespaces = ground.ask_for("namespaces", "", "v1", "namespaces").await;
    assert_eq!(migrator.run(namespaces, stop).await, Ended::Succeeded);
    assert!(!waiting.is_finished());
    server.up();
    assert_eq!(waiting.await.unwrap(), Ended::Succeeded);
    assert_eq!(server.stored().len(), 60);
    assert!(server.stored().iter().all(|(_, version)| version == "v2"));

    // One that has enough for a minute is left alone, and the others are not.
    ground.proxy.plan(|asked| match is_put_of_an_object(asked) && asked.path.contains(aggregated::GROUP) {
        true => Fault::TooMany(60),
        false => Fault::None,
    });
    let readings = ground.ask_for("busy", aggregated::GROUP, aggregated::VERSION, aggregated::RESOURCE).await;
    let stop = CancellationToken::new();
    let busy = tokio::spawn({
        let (migrator, stop) = (migrator.clone(), stop.clone());
        async move { migrator.run(readings, stop).await }
    });
    ground.proxy.until_asked(1, |asked| asked.status == Some(429)).await;
    let namespaces = ground.ask_for("meanwhile", "", "v1", "namespaces").await;
    let meanwhile = migrator.run(namespaces, CancellationToken::new());
    let ended = tokio::time::timeout(Duration::from_secs(40), meanwhile).await.expect("it need not wait");
    assert_eq!(ended, Ended::Succeeded);
    let refused = ground.proxy.count(|asked| asked.status == Some(429));
    assert!(refused <= 16, "{refused}: no more than were under way at the first");
    stop.cancel();
    assert_eq!(busy.await.unwrap(), Ended::Stopped);
}
