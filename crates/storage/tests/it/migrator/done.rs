//! What is done when everything is well.

use serde_json::json;
use storage::migrator::Ended;
use testkit::kube::{BuiltIn, Cluster, built_in};

use crate::migrator::ground::{Ground, WIDGETS_IN_ETCD, holds};

#[tokio::test]
async fn every_object_is_stored_in_the_new_version_with_one_request_each() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 1200, 100).await;
    ground.cluster.flip_storage("v2").await;
    let before = ground.cluster.list("/apis/stable.example.com/v1/widgets").await;
    assert_eq!(ground.stored_versions().await, json!(["v1", "v2"]));

    let (ended, migration) = ground.run(ground.ask_for_widgets("one").await).await;
    assert_eq!(ended, Ended::Succeeded);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, [("stable.example.com/v2".to_owned(), 1200)]);
    assert_eq!(holds(&migration), ("Succeeded".into(), "Migrated".into(), "1200 migrated".into()));
    assert_eq!(migration["status"]["progress"]["migrated"], 1200);
    assert_eq!(ground.stored_versions().await, json!(["v2"]));
    assert_eq!(ground.puts().len(), 1200);
    let gets = ground.proxy.count(|asked| asked.method == "GET" && asked.path.contains("widgets/widget-"));
    assert_eq!(gets, 0);

    // Nothing about them has changed but their version.
    let mut after = ground.cluster.list("/apis/stable.example.com/v1/widgets").await;
    for (before, after) in before.iter().zip(&mut after) {
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        assert_eq!(before, after);
    }
}

#[tokio::test]
async fn built_in_resources_are_migrated_whatever_their_objects_are_called() {
    built_in_resources_are_migrated(built_in::CLAIM_TEMPLATES).await;
}

pub async fn built_in_resources_are_migrated(built_in: BuiltIn) {
    let mut cluster = Cluster::with(built_in.options());
    for number in 0..40 {
        built_in.create(&cluster, &format!("way-{number}")).await;
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "who: what? a#b é"}, "rules": []});
    let (status, said) = cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    assert_eq!(status, 201, "{said}");
    cluster.server.restart(built_in.other_flags);
    let ground = Ground::of(cluster, "admin").await;

    // Without a version: the preferred one.
    let ways = ground.ask_for("ways", built_in.group(), "", built_in.plural()).await;
    let (ended, migration) = ground.run(ways).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(ground.stored(built_in.in_etcd).await, [(built_in.stored_otherwise.to_owned(), 40)]);

    let roles = ground.ask_for("roles", "rbac.authorization.k8s.io", "v1", "clusterroles").await;
    let (ended, migration) = ground.run(roles).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(migration["status"]["progress"]["failed"], 0);
    let strange = |asked: &testkit::kube::Asked| asked.path.ends_with("/who:%20what%3F%20a%23b%20%C3%A9");
    assert_eq!(ground.puts().iter().filter(|asked| strange(asked) && asked.status == Some(200)).count(), 1);

    // An empty one: a list and a word.
    let empty = ground.ask_for("none", "", "v1", "replicationcontrollers").await;
    ground.proxy.forget();
    let (ended, migration) = ground.run(empty).await;
    assert_eq!(ended, Ended::Succeeded);
    assert_eq!(holds(&migration).2, "0 migrated");
    assert_eq!(ground.proxy.count(|asked| asked.method == "PUT"), 1);
}

#[tokio::test]
async fn secrets_are_encrypted_anew_after_a_key_rotation() {
    let mut cluster = Cluster::start();
    let (first, both) = (cluster.encryption(&["one"]), cluster.encryption(&["two", "one"]));
    // One file, written by both: the flag names it, its content is that of the last call.
    assert_eq!(first, both);
    let first = cluster.encryption(&["one"]);
    cluster.server.restart(&[&first]);
    for number in 0..60 {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("s-{number}")},
            "stringData": {"password": "open sesame"}});
        assert_eq!(cluster.create("/api/v1/namespaces/default/secrets", &secret).await.0, 201);
    }
    let both = cluster.encryption(&["two", "one"]);
    cluster.server.restart(&[&both]);
    let ground = Ground::of(cluster, "admin").await;
    let path = "/registry/secrets/default/";
    assert_eq!(ground.stored(path).await, [("k8s:enc:aescbc:v1:one".to_owned(), 60)]);
    let (ended, migration) = ground.run(ground.ask_for("rotation", "", "v1", "secrets").await).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(ground.stored(path).await, [("k8s:enc:aescbc:v1:two".to_owned(), 60)]);
}

#[tokio::test]
async fn objects_of_any_size_are_read_in_pages_of_few_bytes() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 300, 10).await;
    for number in 0..40 {
        // Small ones lie before and after them.
        let large = testkit::kube::widget("v1", &format!("widget-00150-{number}"), 700_000);
        assert_eq!(ground.cluster.create(&testkit::kube::widgets_path("v1"), &large).await.0, 201);
    }
    ground.cluster.flip_storage("v2").await;
    let (ended, migration) = ground.run(ground.ask_for_widgets("sizes").await).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, [("stable.example.com/v2".to_owned(), 340)]);
    assert_eq!(ground.puts().len(), 340);
    let limits = ground.proxy.asked();
    let limits = limits
        .iter()
        .filter_map(|asked| asked.path.split_once("widgets?limit=")?.1.split('&').next()?.parse().ok());
    let limits: Vec<u32> = limits.collect();
    assert!(limits.contains(&1), "an object of 700 kB is a page of its own: {limits:?}");
}

#[tokio::test]
async fn nothing_is_listed_before_the_new_version_is_in_use() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 5, 5).await;
    ground.cluster.flip_storage("v2").await;
    let (ended, migration) = ground.run(ground.ask_for_widgets("careful").await).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    let asked = ground.proxy.asked();
    let first = |part: &str| asked.iter().find(|asked| asked.path.contains(part)).unwrap().at;
    // What is written in the old version meanwhile is in the list, as it is.
    let shown = first("/apis/stable.example.com");
    assert!(first("/widgets?limit=") - shown >= std::time::Duration::from_secs(1), "{asked:#?}");
}
