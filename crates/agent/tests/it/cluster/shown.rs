//! What the ClusterVersion shows, and what it lets people ask for.

use serde_json::{Value, json};

use crate::cluster::ground::{Ground, VERSION, condition, note, note_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_be_taken_is_shown_with_its_risks_and_what_may_not_is_refused_with_a_reason() {
    let mut ground = Ground::start("1m").await;
    ground.publish("1.1.0", &[("0000_10_first.yaml", note("first"))]);
    ground.publish_with_a_risk("1.1.5", &[("0000_10_risky.yaml", note("risky"))]);
    let version = ground
        .until(VERSION, |it| {
            it["status"]["availableUpdates"][0].is_object()
                && it["status"]["conditionalUpdates"][0].is_object()
        })
        .await;
    let status = &version["status"];
    assert_eq!(status["desired"]["version"], "1.0.0");
    assert_eq!(status["availableUpdates"][0]["version"], "1.1.0");
    assert_eq!(status["availableUpdates"][0]["image"], ground.reference("1.1.0"));
    assert_eq!(status["availableUpdates"][0]["url"], "https://example.com/1.1.0");
    let risky = &status["conditionalUpdates"][0];
    assert_eq!(
        (&risky["release"]["version"], &risky["risks"][0]["verdict"]),
        (&json!("1.1.5"), &json!("Applies"))
    );
    for (kind, value) in
        [("Available", "True"), ("Progressing", "False"), ("Failing", "False"), ("RetrievedUpdates", "True")]
    {
        assert_eq!(condition(&version, kind)["status"], value, "{kind}");
    }
    assert_eq!(status["history"][0]["state"], "Completed");

    ground.ask_for("1.1.5").await;
    let refused = |it: &Value| condition(it, "ReleaseAccepted")["status"] == "False";
    let version = ground.until(VERSION, refused).await;
    let why = condition(&version, "ReleaseAccepted")["message"].as_str().unwrap();
    assert!(why.contains("not recommended"), "{why}");
    assert!(!ground.is_there(&note_path("risky")).await);
    ground.wish(&json!({"desiredUpdate": {"version": "1.1.5", "force": true}})).await;
    ground.until_history("1.1.5", "Completed").await;
    assert!(ground.is_there(&note_path("risky")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_automatic_cluster_waits_for_its_nodes_and_for_whoever_paused_it() {
    let mut ground = Ground::start("1m").await;
    ground.kubelet.say_ready(false).await;
    ground.wish(&json!({"automatic": true, "paused": "the line runs"})).await;
    ground.publish("1.1.0", &[("0000_10_first.yaml", note("first"))]);
    ground.until(VERSION, |it| it["status"]["availableUpdates"][0]["version"] == "1.1.0").await;
    ground.wish(&json!({"paused": null})).await;
    let held = |it: &Value| {
        condition(it, "Progressing")["message"].as_str().is_some_and(|said| said.contains("nodes-ready"))
    };
    let version = ground.until(VERSION, held).await;
    assert!(
        condition(&version, "Progressing")["message"].as_str().unwrap().contains("here (KubeletNotReady)")
    );
    assert!(!ground.is_there(&note_path("first")).await);
    ground.kubelet.say_ready(true).await;
    ground.until_history("1.1.0", "Completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_no_graph_offers_can_be_asked_for_by_its_digest_and_nonsense_is_refused_at_once() {
    let mut ground = Ground::start("1m").await;
    ground.publish("1.1.0", &[("0000_10_first.yaml", note("first"))]);
    for nonsense in [
        json!({"version": "1.1.0", "image": "r/i@sha256:00"}),
        json!({"version": "newest"}),
        json!({"force": true}),
    ] {
        let (status, said) =
            ground.cluster.patch(VERSION, &json!({"spec": {"desiredUpdate": nonsense}})).await;
        assert_eq!(status, 422, "{said}");
    }
    let other = json!({
        "apiVersion": "holdfast.dev/v1alpha1", "kind": "ClusterVersion", "metadata": {"name": "another"}, "spec": {},
    });
    let (status, said) = ground.cluster.create("/apis/holdfast.dev/v1alpha1/clusterversions", &other).await;
    assert_eq!(status, 422, "there is one: {said}");
    // A graph that does not answer does not keep it.
    ground
        .wish(
            &json!({"upstream": "http://127.0.0.1:9", "desiredUpdate": {"image": ground.reference("1.1.0")}}),
        )
        .await;
    let version = ground.until_history("1.1.0", "Completed").await;
    assert_eq!(version["status"]["history"][0]["verified"], true);
}
