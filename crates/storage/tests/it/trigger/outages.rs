//! What the trigger finds when it was away.

use jiff::{Timestamp, ToSpan};
use serde_json::json;
use testkit::kube::{Client, Cluster};

use crate::trigger::support::*;

async fn beat(client: &Client, resource: &str, minutes: i64) {
    let time = Timestamp::now() + minutes.minutes();
    let status = json!({"status": {"lastHeartbeatTime": time.to_string()}});
    let (status, said) = client.patch(&format!("{}/status", state_path(resource)), &status).await;
    assert_eq!(status, 200, "{said}");
}

async fn start(cluster: &Cluster) -> Controller {
    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(600), TRIGGER).await;
    controller.passes(1).await;
    controller
}

#[tokio::test]
async fn after_an_outage_only_what_is_still_known_is_believed() {
    let (a, b) = (&*widget_hash("v1"), &*widget_hash("v2"));
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    let controller = start(&cluster).await;
    let first = until_migration(&cluster, WIDGETS, &[]).await;
    succeed(&cluster, &first).await;
    let before = until_state(&cluster, WIDGETS, &[a], a).await;
    controller.cut_off().await;

    // A short one: a heartbeat, and nothing else.
    beat(&cluster, WIDGETS, -9).await;
    let controller = start(&cluster).await;
    let after = cluster.get(&state_path(WIDGETS)).await.1;
    assert_eq!((uid(&after), persisted(&after), current(&after)), (uid(&before), vec![a], a));
    assert_eq!(after["status"]["changes"], before["status"]["changes"]);
    assert!(after["status"]["lastHeartbeatTime"].as_str() >= before["status"]["lastHeartbeatTime"].as_str());
    assert_eq!(uid(&until_migration(&cluster, WIDGETS, &[]).await), uid(&first));

    // A migration that ended meanwhile counts, and is not done again.
    cluster.flip_storage("v2").await;
    until_state(&cluster, WIDGETS, &[a, b], b).await;
    let second = until_migration(&cluster, WIDGETS, &[uid(&first)]).await;
    controller.cut_off().await;
    succeed(&cluster, &second).await;
    let controller = start(&cluster).await;
    let settled = until_state(&cluster, WIDGETS, &[b], b).await;
    assert_eq!(uid(&until_migration(&cluster, WIDGETS, &[]).await), uid(&second));
    controller.cut_off().await;

    // A long one, and a clock that ran ahead: nothing is believed.
    let (mut known, mut done) = (settled, second);
    for minutes in [-11, 11] {
        beat(&cluster, WIDGETS, minutes).await;
        let controller = start(&cluster).await;
        let anew = until_state(&cluster, WIDGETS, &["Unknown"], b).await;
        assert_ne!(uid(&anew), uid(&known), "it is another state");
        let again = until_migration(&cluster, WIDGETS, &[uid(&done)]).await;
        succeed(&cluster, &again).await;
        known = until_state(&cluster, WIDGETS, &[b], b).await;
        done = again;
        controller.cut_off().await;
    }
}
