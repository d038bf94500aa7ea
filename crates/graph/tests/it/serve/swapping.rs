//! Graphs and configurations change while clients ask.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use graph::serve::Error;
use graph::settings::{PayloadForm, Settings};
use serde_json::json;

use crate::serve::support::{Served, client, settings, small, small_document, snapshot};

const ASK: &str = "/v1/graph?channel=stable&version=1.0.0&arch=amd64&id=x";

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_graphs_change() {
    let served = Served::small().await;
    let url = format!("{}{ASK}", served.url);
    let done = Arc::new(AtomicBool::new(false));
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let (url, done) = (url.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let client = client();
                let mut asked = 0;
                // At least once, however late this one gets its turn.
                while asked == 0 || !done.load(Ordering::Relaxed) {
                    let response = client.get(&url).send().await.unwrap();
                    assert_eq!(response.status(), 200);
                    let graph: serde_json::Value = response.json().await.unwrap();
                    let count = graph["nodes"].as_array().unwrap().len();
                    assert!(count == 3 || count == 1, "{graph}");
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    let mut other = small_document();
    other["edges"] = json!([]);
    other["conditionalEdges"] = json!([]);
    for round in 0..20 {
        let next = if round % 2 == 0 { other.clone() } else { small_document() };
        served.current.publish(snapshot(next));
        served.handle.refreshed().await;
    }
    done.store(true, Ordering::Relaxed);
    for asker in askers {
        assert!(asker.await.unwrap() > 0);
    }
    assert_eq!(served.json(ASK).await["nodes"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn answers_in_use_are_made_before_a_new_graph_takes_over() {
    let served = Served::small().await;
    served.json(ASK).await;
    let mut other = small_document();
    other["nodes"][0]["metadata"]["note"] = "new".into();
    served.current.publish(snapshot(other));
    served.handle.refreshed().await;
    let misses = served.metric("answer_cache_misses_total").await;
    assert_eq!(served.json(ASK).await["nodes"][0]["metadata"]["note"], "new");
    assert_eq!(served.metric("answer_cache_misses_total").await, misses);
}

#[tokio::test]
async fn the_same_graph_seen_again_keeps_its_answers() {
    let served = Served::small().await;
    let before = served.get(ASK).await.headers()["etag"].clone();
    served.current.publish(small());
    served.handle.refreshed().await;
    assert_eq!(served.get(ASK).await.headers()["etag"], before);
    assert_eq!(served.metric("graph_changes_total").await, 1);
    assert_eq!(served.metric("answer_cache_hits_total").await, 1);
}

#[tokio::test]
async fn a_configuration_is_taken_over_while_it_runs() {
    let served = Served::small().await;
    served.json(ASK).await;
    let settings = Settings {
        payload_form: PayloadForm::Document,
        required_parameters: vec!["channel".to_owned(), "token".to_owned()],
        path_prefix: "/new".to_owned(),
        ..served.handle.settings()
    };
    served.handle.reload(settings.clone()).await.unwrap();
    assert_eq!(served.get(ASK).await.status(), 404);
    assert_eq!(served.error(&format!("/new{ASK}")).await.2, "mandatory client parameters missing: token");
    let graph = served.json(&format!("/new{ASK}&token=1")).await;
    assert_eq!(graph["nodes"][0]["payload"]["kind"], "update.openshift.io/v0");
    let moved = Settings { listen: ([127, 0, 0, 1], 1).into(), ..settings };
    assert!(matches!(served.handle.reload(moved).await, Err(Error::Fixed("listen"))));
    assert_eq!(served.get(&format!("/new{ASK}&token=1")).await.status(), 200);
}

#[tokio::test]
async fn ids_take_no_memory_and_answers_no_more_than_allowed() {
    let mut limited = settings();
    limited.limits.answer_cache_bytes = 64 << 10;
    let served = Served::with(limited, small()).await;
    let client = client();
    for number in 0..300 {
        let url = format!("{}{}{number}", served.url, ASK);
        assert_eq!(client.get(url).send().await.unwrap().status(), 200);
    }
    assert_eq!(served.metric("answer_cache_misses_total").await, 1);
    for channel in ["stable", "fast-1"] {
        for arch in ["amd64", "arm64", "none"] {
            for version in ["1.0.0", "1.1.0", "1.2.0", "1.3.0"] {
                for view in ["", "&view=full"] {
                    served
                        .json(&format!(
                            "/v1/graph?channel={channel}&version={version}&arch={arch}&id=x{view}"
                        ))
                        .await;
                }
            }
        }
    }
    assert!(served.metric("answer_cache_bytes").await <= 64 << 10);
}
