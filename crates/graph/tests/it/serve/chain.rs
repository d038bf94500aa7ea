//! A service chained onto a service.

use std::time::Duration;

use graph::current::Current;
use graph::settings::{Role, Settings};
use logic::graph::GraphData;
use logic::graph::ReleaseName;
use logic::graph::data::Block;
use logic::graph::note::Place;
use serde_json::{Value, json};

use crate::serve::fake::{Fake, Told};
use crate::serve::support::{Served, client, settings, small, small_document};

const ASK: &str = "/v1/graph?channel=stable&version=1.0.0&arch=amd64&id=x";

async fn onto(url: &str) -> Served {
    Served::start(Settings { upstream: Some(url.to_owned()), ..settings() }, Current::default()).await
}

#[tokio::test]
async fn a_client_is_told_what_upstream_would_have_told_it() {
    let policy = Served::small().await;
    let builder = Served::with(Settings { role: Role::Builder, ..settings() }, small()).await;
    let once = onto(&policy.url).await;
    let twice = onto(&format!("{}/v1/graph", once.url)).await;
    let onto_builder = onto(&format!("{}/graph", builder.url)).await;
    for query in [
        "channel=stable&version=1.0.0&arch=amd64&id=x",
        "channel=stable&version=1.1.0&arch=arm64&id=x",
        "channel=fast-1&version=1.0.0&id=y",
        "channel=fast-1&version=1.3.0&arch=arm64&id=y",
        "channel=fast-1&version=1.0.0&arch=arm64&id=y&view=full",
        "channel=stable&version=1.0.0&arch=64&id=y",
        "channel=none&version=1.0.0&arch=amd64&id=y",
    ] {
        let path = format!("/v1/graph?{query}");
        let direct = policy.json(&path).await;
        for served in [&once, &twice, &onto_builder] {
            assert_eq!(served.json(&path).await, direct, "{query}");
        }
    }
    assert_eq!(onto_builder.get("/readyz").await.status(), 200);
    assert_eq!(once.error("/v1/graph?channel=stable").await.1, "missing_params");
}

#[tokio::test]
async fn all_parameters_are_passed_on_and_one_answer_serves_for_a_while() {
    let upstream = Fake::new(Told::ok(small_document().to_string())).await;
    let served = onto(&format!("{}/api/graph?key=1", upstream.url)).await;
    let path = format!("{ASK}&favourite=a%26b&empty=");
    assert_eq!(served.versions(&path).await, ["1.0.0", "1.1.0", "1.2.0"]);
    served.json(&path).await;
    let asked = upstream.asked();
    assert_eq!(asked.len(), 1);
    let expected = "/api/graph?key=1&arch=amd64&channel=stable&empty=&favourite=a%26b&id=x&version=1.0.0";
    assert_eq!(asked[0].uri, expected);
    served.json(ASK).await;
    assert_eq!(upstream.asked().len(), 2);
}

#[tokio::test]
async fn the_same_question_is_asked_once_at_a_time() {
    let slow = Told::ok(small_document().to_string()).after(Duration::from_millis(200));
    let upstream = Fake::new(slow).await;
    let served = onto(&upstream.url).await;
    let url = format!("{}{ASK}", served.url);
    let asking: Vec<_> = (0..8).map(|_| tokio::spawn(client().get(&url).send())).collect();
    for asked in asking {
        assert_eq!(asked.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(upstream.asked().len(), 1);
}

#[tokio::test]
async fn an_answer_that_may_have_changed_is_asked_for_by_its_tag() {
    let told =
        Told::ok(small_document().to_string()).header("cache-control", "max-age=0").header("etag", "\"one\"");
    let upstream = Fake::new(told).await;
    let served = onto(&upstream.url).await;
    let first = served.json(ASK).await;
    upstream.tell(Told { body: String::new(), ..Told::status(304) }.header("cache-control", "max-age=60"));
    assert_eq!(served.json(ASK).await, first);
    assert_eq!(served.json(ASK).await, first);
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].headers["if-none-match"], "\"one\"");
}

#[tokio::test]
async fn when_upstream_fails_the_last_good_answer_is_served_with_its_age() {
    let told = Told::ok(small_document().to_string()).header("cache-control", "max-age=0");
    let upstream = Fake::new(told).await;
    let served = onto(&upstream.url).await;
    let first = served.json(ASK).await;
    for bad in [
        Told::status(500),
        Told::ok("no graph"),
        Told::ok(json!({"version": 7, "nodes": [], "edges": []}).to_string()),
    ] {
        upstream.tell(bad);
        let response = served.get(ASK).await;
        assert_eq!(response.status(), 200);
        assert!(response.headers().contains_key("age"));
        assert!(response.headers().contains_key("holdfast-graph-stale"));
        assert_eq!(response.json::<Value>().await.unwrap(), first);
        let (status, kind, _) = served.error(&format!("{ASK}&other={}", upstream.asked().len())).await;
        assert_eq!((status, kind.as_str()), (502, "failed_upstream_fetch"));
    }
    assert!(served.metric("upstream_failures_total").await >= 4);
}

#[tokio::test]
async fn an_upstream_that_is_not_there_slow_or_endless_is_an_error_in_time() {
    let gone = onto("http://127.0.0.1:1").await;
    assert_eq!(gone.error(ASK).await.1, "failed_upstream_fetch");
    let upstream = Fake::new(Told::ok("{}").after(Duration::from_secs(60))).await;
    let mut impatient = Settings { upstream: Some(upstream.url.clone()), ..settings() };
    impatient.limits.upstream_timeout = Duration::from_millis(50).into();
    impatient.limits.upstream_bytes = 100;
    let served = Served::start(impatient, Current::default()).await;
    assert_eq!(served.error(ASK).await.1, "failed_upstream_fetch");
    upstream.tell(Told::ok(small_document().to_string()));
    let (_, kind, value) = served.error(ASK).await;
    assert_eq!(
        (kind.as_str(), value.as_str()),
        ("failed_upstream_fetch", "the answer is larger than 100 bytes")
    );
}

#[tokio::test]
async fn what_upstream_says_of_the_clients_mistakes_is_passed_on() {
    let body = json!({ "kind": "invalid_params", "value": "strange" }).to_string();
    let upstream = Fake::new(Told { status: 400, ..Told::ok(body) }).await;
    let served = onto(&upstream.url).await;
    assert_eq!(served.error(ASK).await, (400, "invalid_params".to_owned(), "strange".to_owned()));
}

#[tokio::test]
async fn an_edge_of_upstream_that_is_out_of_range_is_left_out() {
    let mut document = small_document();
    document["edges"].as_array_mut().unwrap().push(json!([0, 99]));
    document["edges"].as_array_mut().unwrap().push(json!([u64::MAX, 1]));
    let upstream = Fake::new(Told::ok(document.to_string())).await;
    let served = onto(&upstream.url).await;
    assert_eq!(served.versions(ASK).await, ["1.0.0", "1.1.0", "1.2.0"]);
}

#[tokio::test]
async fn own_graph_data_goes_over_what_upstream_says() {
    let policy = Served::small().await;
    let served = onto(&policy.url).await;
    assert_eq!(served.versions(ASK).await.len(), 3);
    let block = |to: &str, from: &str| Block {
        to: ReleaseName::parse(to).unwrap(),
        from: regex::Regex::new(from).unwrap(),
        risk: None,
        place: Place::Whole,
    };
    served.handle.set_graph_data(GraphData { blocks: vec![block("1.2.0", ".*")], ..GraphData::default() });
    assert_eq!(served.versions(ASK).await, ["1.0.0", "1.1.0"]);
}
