//! Keys that releases bring along: whom the next one must be signed by, besides those who are configured.

use serde_json::{Value, json};
use testkit::releases::CosignKey;

use crate::cluster::ground::{Ground, Published, agent, note, note_path};

fn keys(key: &CosignKey) -> Option<Vec<u8>> {
    Some(key.public())
}

/// The agent of a release for which nobody is configured.
fn agent_without_keys(version: &str) -> Value {
    let mut deployment = agent(version);
    let env = deployment.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
    env.as_array_mut().unwrap().push(json!({"name": "AGENT_KEYS", "value": ""}));
    deployment
}

/// 1.1.0 brings key A; 1.2.0 is signed by A and brings B, and with it comes an agent for which nobody is configured: it judges by A alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_release_is_signed_by_a_key_that_the_one_before_it_brought() {
    let mut ground = Ground::start("2m").await;
    let (a, b) = (ground.another_key(), ground.another_key());
    let configured = ground.configured_key();
    let first = [("0000_10_first.yaml", note("first"))];
    ground.publish_as(&Published {
        files: &first,
        keys: keys(&a),
        ..Published::of("1.1.0", "1.0.0", &[&configured])
    });
    ground.ask_for("1.1.0").await;
    let version = ground.until_history("1.1.0", "Completed").await;
    let kept = &version["status"]["rollout"]["running"]["keys"]["data"]["vendor.pub"];
    assert_eq!(kept.as_str().unwrap().as_bytes(), a.public());

    // The configured key alone does not do any more.
    let second =
        [("0000_00_agent.yaml", agent_without_keys("1.2.0")), ("0000_10_second.yaml", note("second"))];
    ground.publish_as(&Published {
        files: &second,
        keys: keys(&b),
        ..Published::of("1.2.0", "1.1.0", &[&configured])
    });
    ground.ask_for("1.2.0").await;
    let version = ground.until_history("1.2.0", "Refused").await;
    assert!(said(&version).contains("keyring release-keys of 1.1.0"), "{}", said(&version));
    ground.nothing_left(&version).await;
    assert!(!ground.is_there(&note_path("second")).await);
    assert_eq!(version["status"]["rollout"]["running"]["version"], "1.1.0");

    ground.sign("1.2.0", &a);
    ground.ask_again_for("1.2.0").await;
    let version = ground.until_history("1.2.0", "Completed").await;
    assert_eq!(version["status"]["history"][0]["verified"], true);
    let kept = &version["status"]["rollout"]["running"]["keys"]["data"]["vendor.pub"];
    assert_eq!(kept.as_str().unwrap().as_bytes(), b.public());

    // By the key that was replaced, and with it those whom nobody asks any more.
    let third = [("0000_10_third.yaml", note("third"))];
    ground.publish_as(&Published { files: &third, ..Published::of("1.3.0", "1.2.0", &[&a, &configured]) });
    ground.ask_for("1.3.0").await;
    let version = ground.until_history("1.3.0", "Refused").await;
    assert!(said(&version).contains("keyring release-keys of 1.2.0"), "{}", said(&version));
    ground.nothing_left(&version).await;
    assert!(!ground.is_there(&note_path("third")).await);

    // Keys that can't be used would be the end of all updates: they are no part of a release that is applied.
    ground.publish_as(&Published {
        files: &third,
        keys: Some(b"no key".to_vec()),
        ..Published::of("1.3.1", "1.2.0", &[&b])
    });
    ground.ask_for("1.3.1").await;
    let version = ground.until_history("1.3.1", "Refused").await;
    assert!(said(&version).contains("release-keys/vendor.pub holds no keys"), "{}", said(&version));
    ground.nothing_left(&version).await;

    ground.publish_as(&Published { files: &third, ..Published::of("1.3.2", "1.2.0", &[&b]) });
    ground.ask_for("1.3.2").await;
    let version = ground.until_history("1.3.2", "Completed").await;
    assert!(ground.is_there(&note_path("third")).await);
    // It brings none, so none are kept.
    assert_eq!(version["status"]["rollout"]["running"]["keys"], Value::Null);
}

/// Why the newest attempt was refused.
fn said(version: &Value) -> &str {
    version["status"]["history"][0]["message"].as_str().unwrap_or_default()
}
