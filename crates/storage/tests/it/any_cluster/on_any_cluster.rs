//! Migrations of a resource that nobody else knows.
//!
//! `kubeconfig` runs these tests together, each in a namespace of its own on one API server. `cargo nextest run --run-ignored all`
//! runs them on the cluster of `KUBECONFIG`, where there is no kube-apiserver.

use serde_json::{Value, json};
use storage::migrator::Ended;
use tokio_util::sync::CancellationToken;

use crate::any_cluster::ground::Ground;

const THINGS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kubeconfig starts all of these tests, on one API server"]
async fn every_object_is_written_once_and_the_old_version_is_struck_off() {
    let ground = Ground::new(THINGS).await;
    assert_eq!(ground.stored_versions().await, json!(["v1", "v2"]));
    // A definition that has just changed is not served at once: newer API servers answer 429 meanwhile.
    let before = ground.until(&ground.things("v1"), |status, _| status == 200).await;
    let migration = ground.ask_for_migration().await;
    assert_eq!(ground.run(migration, CancellationToken::new()).await, Ended::Succeeded);

    let mut after = ground.until(&ground.things("v1"), |status, _| status == 200).await;
    assert_eq!(before["items"].as_array().unwrap().len(), THINGS);
    for (before, after) in
        before["items"].as_array().unwrap().iter().zip(after["items"].as_array_mut().unwrap())
    {
        // A write that changes nothing is one only if it changes how the object is stored.
        assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(before, after);
    }
    assert_eq!(ground.stored_versions().await, json!(["v2"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kubeconfig starts all of these tests, on one API server"]
async fn an_object_that_can_not_be_written_is_named_and_the_rest_is_migrated() {
    let ground = Ground::new(THINGS).await;
    ground.limit_numbers(THINGS - 2).await;
    let migration = ground.ask_for_migration().await;
    assert_eq!(ground.run(migration, CancellationToken::new()).await, Ended::Failed);
    let status = ground.migration().await.status.unwrap();
    let progress = status.progress.unwrap();
    assert_eq!((progress.migrated, progress.failed), (THINGS as u64 - 1, 1));
    let last = format!("{}/thing-{:03}: ", ground.name, THINGS - 1);
    assert!(status.failures[0].starts_with(&last), "{:?}", status.failures);
    assert_eq!(ground.stored_versions().await, json!(["v1", "v2"]), "not after a failure");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kubeconfig starts all of these tests, on one API server"]
async fn a_migration_that_is_stopped_goes_on_and_one_that_is_deleted_is_gone() {
    let ground = Ground::new(THINGS).await;
    let migration = ground.ask_for_migration().await;
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert_eq!(ground.run(migration, stopped).await, Ended::Stopped);
    let migration = ground.migration().await;
    assert_eq!(ground.run(migration.clone(), CancellationToken::new()).await, Ended::Succeeded);
    assert_eq!(ground.migration().await.status.unwrap().progress.unwrap().migrated, THINGS as u64);

    ground.delete(&ground.migration_path()).await;
    ground.until(&ground.migration_path(), |status, _| status == 404).await;
    assert_eq!(ground.run(migration, CancellationToken::new()).await, Ended::Gone);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kubeconfig starts all of these tests, on one API server"]
async fn kubectl_shows_how_migrations_are_doing() {
    let ground = Ground::new(THINGS).await;
    let migration = ground.ask_for_migration().await;
    ground.run(migration, CancellationToken::new()).await;
    let get = |words: &[&str]| {
        let kubectl = ground
            .cluster
            .kubectl()
            .args(["get", "storageversionmigrations.migration.k8s.io"])
            .args(words)
            .output();
        let output = kubectl.expect("kubectl is needed: it is in Debian's package kubernetes-client");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = get(&[&ground.name]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let columns = ["NAME", "RESOURCE", "GROUP", "STATUS", "MIGRATED", "FAILED", "REMAINING", "RATE", "AGE"];
    assert_eq!(lines[0], columns, "{text}");
    // None remain, so that this column is empty.
    assert_eq!(lines[1][..6], [&ground.name, "things", lines[1][2], "Succeeded", "60", "0"], "{text}");
    assert!(lines[1][2].starts_with(&ground.name), "{text}");
    let wide = get(&[&ground.name, "-o", "wide"]);
    assert!(wide.lines().next().is_some_and(|head| head.contains("LEFT")), "{wide}");
    let all: Value = serde_json::from_str(&get(&["-o", "json"])).unwrap();
    assert!(all["items"].as_array().unwrap().iter().any(|it| it["metadata"]["name"] == *ground.name));
}
