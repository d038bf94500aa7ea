//! What clients ask and what they are told.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use graph::current::Current;
use graph::settings::{PayloadForm, Role, Settings};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::serve::support::{Dir, Served, client, settings, small, small_document, snapshot};

const ASK: &str = "/v1/graph?channel=stable&version=1.0.0&arch=amd64&id=x";

#[tokio::test]
async fn a_client_sees_the_ways_from_its_release_to_the_channels_target() {
    let served = Served::small().await;
    let graph = served.json(ASK).await;
    let payload = |at: usize| format!("quay.example.com/p@sha256:{at:064x}");
    let node = |patch: &str, at: usize, channels: &str| {
        json!({
            "version": patch, "payload": payload(at),
            "metadata": { crate::serve::support::CHANNELS: channels, "url": format!("https://example.com/{patch}") },
        })
    };
    let mut metadata_free = graph.clone();
    for node in metadata_free["nodes"].as_array_mut().unwrap() {
        // Whatever else the build puts there is not for this test to say.
        let metadata = node["metadata"].as_object_mut().unwrap();
        metadata.retain(|key, _| key == "url" || key == crate::serve::support::CHANNELS);
        let mut channels: Vec<&str> =
            metadata[crate::serve::support::CHANNELS].as_str().unwrap().split(',').collect();
        channels.sort_unstable();
        let channels = channels.join(",");
        metadata[crate::serve::support::CHANNELS] = channels.into();
    }
    let expected = json!({
        "version": 1,
        "nodes": [
            node("1.0.0", 0, "fast-1,stable"), node("1.1.0", 1, "fast-1,stable"), node("1.2.0", 2, "fast-1,stable")
        ],
        "edges": [[0, 1], [1, 2]],
        "conditionalEdges": [{
            "edges": [{ "from": "1.0.0", "to": "1.2.0" }],
            "risks": [{
                "url": "https://example.com/risk", "name": "Risky", "message": "careful",
                "matchingRules": [{ "type": "Always" }],
            }],
        }],
    });
    assert_eq!(metadata_free, expected);
    let fast = served.versions("/graph?channel=fast-1&version=1.1.0&arch=arm64&id=x").await;
    assert_eq!(fast, ["1.1.0", "1.2.0", "1.3.0"]);
}

#[tokio::test]
async fn the_same_answers_come_from_every_path_and_under_a_prefix() {
    let served =
        Served::with(Settings { path_prefix: "/api/upgrades_info".to_owned(), ..settings() }, small()).await;
    let query = &ASK["/v1/graph".len()..];
    let one = served.json(&format!("/api/upgrades_info/v1/graph{query}")).await;
    assert_eq!(one, served.json(&format!("/api/upgrades_info/graph{query}")).await);
    assert_eq!(served.get(ASK).await.status(), 404);
    let openapi = served.json("/api/upgrades_info/v1/openapi").await;
    assert_eq!(openapi["servers"][0]["url"], "/api/upgrades_info");
}

#[tokio::test]
async fn what_is_missing_or_malformed_is_said() {
    let served = Served::small().await;
    for (path, kind, value) in [
        ("/v1/graph?version=1.0.0", "missing_params", "mandatory client parameters missing: channel, id"),
        ("/v1/graph", "missing_params", "mandatory client parameters missing: channel, id, version"),
    ] {
        assert_eq!(served.error(path).await, (400, kind.to_owned(), value.to_owned()));
    }
    for path in [
        "/v1/graph?channel=stable&version=one&id=x",
        "/v1/graph?channel=sta%2Fble&version=1.0.0&id=x",
        "/v1/graph?channel=stable&version=1.0.0&id=x&arch=AMD%2064",
        "/v1/graph?channel=stable&channel=fast-1&version=1.0.0&id=x",
    ] {
        let (status, kind, _) = served.error(path).await;
        assert_eq!((status, kind.as_str()), (400, "invalid_params"), "{path}");
    }
    let served =
        Served::with(Settings { required_parameters: vec!["serial".to_owned()], ..settings() }, small());
    let (_, _, value) = served.await.error("/v1/graph?channel=stable&version=1.0.0").await;
    assert_eq!(value, "mandatory client parameters missing: serial");
}

#[tokio::test]
async fn what_is_unknown_is_an_empty_graph() {
    let served = Served::small().await;
    for query in [
        "channel=stable&version=1.0.0&id=x&arch=64",
        "channel=stable&version=9.0.0&id=x&arch=amd64",
        "channel=stable&version=9.0.0-rc.1%2Bamd64&id=x",
    ] {
        let graph = served.json(&format!("/v1/graph?{query}")).await;
        assert_eq!(
            graph,
            json!({ "version": 1, "nodes": [], "edges": [], "conditionalEdges": [] }),
            "{query}"
        );
    }
    // A client on a known release sees itself, whatever channel it names.
    assert_eq!(served.versions("/v1/graph?channel=nightly&version=1.0.0&id=x&arch=amd64").await, ["1.0.0"]);
}

#[tokio::test]
async fn an_architecture_may_come_with_the_version_or_by_default() {
    let served = Served::small().await;
    let plain = served.json(ASK).await;
    for version in ["1.0.0%2Bamd64", "1.0.0+amd64", "1.0.0"] {
        let asked = format!("/v1/graph?channel=stable&version={version}&id=x");
        assert_eq!(served.json(&asked).await, plain, "{version}");
    }
    let arm = served.json("/v1/graph?channel=stable&version=1.0.0%2Barm64&id=x").await;
    assert_ne!(arm, plain);
}

#[tokio::test]
async fn the_whole_channel_is_there_for_those_who_ask() {
    let served = Served::small().await;
    for query in [
        "channel=fast-1&version=1.2.0&id=x&arch=amd64&view=full",
        "channel=fast-1&version=9.9.9&id=x&view=full",
    ] {
        let versions = served.versions(&format!("/v1/graph?{query}")).await;
        assert_eq!(versions, ["1.0.0", "1.1.0", "1.2.0", "1.3.0"], "{query}");
    }
}

#[tokio::test]
async fn a_channel_may_have_no_dash_and_a_node_no_metadata() {
    let document = json!({
        "version": 1,
        "nodes": [
            { "version": "1.0.0", "payload": "example.com/p@sha256:00", "metadata": { crate::serve::support::CHANNELS: "edge" } },
            { "version": "2.0.0", "payload": "example.com/p@sha256:01" },
        ],
        "edges": [[0, 1]],
    });
    let served =
        Served::with(Settings { role: Role::Builder, ..settings() }, snapshot(document.clone())).await;
    let whole = served.json("/v1/graph").await;
    assert_eq!(whole["nodes"][1]["payload"], "example.com/p@sha256:01");
    let served = Served::with(settings(), snapshot(document)).await;
    assert_eq!(served.versions("/v1/graph?channel=edge&version=1.0.0&id=x").await, ["1.0.0"]);
}

#[tokio::test]
async fn a_builder_shows_everything_to_everybody() {
    let served = Served::with(Settings { role: Role::Builder, ..settings() }, small()).await;
    let whole = served.json("/v1/graph").await;
    assert_eq!(whole["nodes"].as_array().unwrap().len(), 8);
    assert_eq!(whole["nodes"][0]["version"], "1.0.0+amd64");
    assert_eq!(whole, served.json(ASK).await);
}

#[tokio::test]
async fn payloads_come_as_text_or_as_a_document() {
    let form = Settings { payload_form: PayloadForm::Document, ..settings() };
    let policy = Served::with(form.clone(), small()).await;
    let builder = Served::with(Settings { role: Role::Builder, ..form }, small()).await;
    for served in [policy, builder] {
        let payload = served.json(ASK).await["nodes"][0]["payload"].clone();
        assert_eq!(payload["kind"], "update.openshift.io/v0");
        assert_eq!(payload["image"], format!("quay.example.com/p@sha256:{:064x}", 0));
    }
}

#[tokio::test]
async fn media_types_are_negotiated() {
    let served = Served::small().await;
    let url = format!("{}{ASK}", served.url);
    for (accept, expected) in [
        ("application/json", Some("application/json")),
        ("application/vnd.redhat.cincinnati.v1+json", Some("application/vnd.redhat.cincinnati.v1+json")),
        ("text/html;q=0.9, */*;q=0.1", Some("application/json")),
        ("text/html", None),
    ] {
        let response = client().get(&url).header("accept", accept).send().await.unwrap();
        match expected {
            Some(kind) => assert_eq!(response.headers()["content-type"], kind),
            None => {
                assert_eq!(response.status(), 406);
                let body: Value = response.json().await.unwrap();
                assert_eq!(body["kind"], "invalid_content_type");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_is_tagged_and_compressed() {
    let served = Served::small().await;
    let url = format!("{}{ASK}", served.url);
    let plain = client().get(&url).send().await.unwrap();
    let tag = plain.headers()["etag"].clone();
    assert_eq!(plain.headers()["vary"], "Accept-Encoding, Accept");
    let plain = plain.bytes().await.unwrap();
    // Whoever insists gets it at once, and the others as soon as it is made.
    let insisting = "gzip, identity;q=0";
    let insisted = client().get(&url).header("accept-encoding", insisting).send().await.unwrap();
    assert_eq!(insisted.headers()["content-encoding"], "gzip");
    let zipped = client().get(&url).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let gzip_tag = zipped.headers()["etag"].clone();
    assert_ne!(tag, gzip_tag);
    let mut unzipped = Vec::new();
    let zipped = zipped.bytes().await.unwrap();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&zipped[..]), &mut unzipped).unwrap();
    assert_eq!(unzipped, plain);
    for known in [tag.to_str().unwrap(), gzip_tag.to_str().unwrap(), "\"other\", W/\"x\", *"] {
        let again = client().get(&url).header("if-none-match", known).send().await.unwrap();
        assert_eq!((again.status().as_u16(), &again.headers()["etag"]), (304, &tag), "{known}");
        assert!(again.bytes().await.unwrap().is_empty());
    }
    let other = client().get(&url).header("if-none-match", "\"other\"").send().await.unwrap();
    assert_eq!(other.status(), 200);
}

#[tokio::test]
async fn a_header_that_is_not_ascii_breaks_nothing() {
    let served = Served::small().await;
    let address = served.url.strip_prefix("http://").unwrap();
    for header in ["Accept", "Accept-Encoding", "If-None-Match", "X-Request-Id", "User-Agent", "X-Strange"] {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut request =
            format!("GET {ASK} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}: ").into_bytes();
        request.extend_from_slice(b"gr\xfc\xdfe, \xc3\xa4\r\n\r\n");
        stream.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{header}: {}", String::from_utf8_lossy(&answer));
    }
}

#[tokio::test]
async fn browsers_may_ask_and_other_methods_are_refused() {
    let served = Served::small().await;
    let url = format!("{}{ASK}", served.url);
    let preflight = client()
        .request(Method::OPTIONS, &url)
        .header("origin", "https://console.example.com")
        .header("access-control-request-method", "GET")
        .send()
        .await
        .unwrap();
    assert_eq!(preflight.status(), 204);
    assert_eq!(preflight.headers()["access-control-allow-origin"], "*");
    assert_eq!(preflight.headers()["access-control-allow-methods"], "GET, HEAD, OPTIONS");
    let head = client().head(&url).send().await.unwrap();
    let get = client().get(&url).send().await.unwrap();
    assert_eq!(get.headers()["access-control-allow-origin"], "*");
    assert_eq!(head.headers()["etag"], get.headers()["etag"]);
    let length = get.bytes().await.unwrap().len().to_string();
    assert_eq!(head.headers()["content-length"], length.as_str());
    assert!(head.bytes().await.unwrap().is_empty());
    for path in [ASK, "/v1/openapi", "/livez"] {
        let post = client().post(format!("{}{path}", served.url)).body("x").send().await.unwrap();
        assert_eq!(
            (post.status().as_u16(), &post.headers()["allow"]),
            (405, &"GET, HEAD, OPTIONS".parse().unwrap())
        );
        let body: Value = post.json().await.unwrap();
        assert_eq!(body["kind"], "method_not_allowed");
    }
    assert_eq!(served.error("/nothing").await.1, "not_found");
}

#[tokio::test]
async fn signatures_are_files_by_digest_and_nothing_else() {
    let dir = Dir::new("signatures");
    let digest = "ab".repeat(32);
    dir.file(&format!("store/sha256={digest}/signature-1"), "signed");
    dir.file("secret", "secret");
    let served =
        Served::with(Settings { signatures_dir: Some(dir.0.join("store")), ..settings() }, small()).await;
    let found = served.get(&format!("/v1/signatures/sha256={digest}/signature-1")).await;
    assert_eq!((found.status().as_u16(), found.text().await.unwrap().as_str()), (200, "signed"));
    for rest in [
        format!("sha256={digest}/signature-2"),
        format!("sha256={digest}"),
        "../secret".to_owned(),
        "%2e%2e/secret".to_owned(),
        format!("sha256={digest}/../../../secret"),
    ] {
        assert_eq!(served.get(&format!("/v1/signatures/{rest}")).await.status(), 404, "{rest}");
    }
}

#[tokio::test]
async fn the_openapi_document_describes_the_routes_that_there_are() {
    let served = Served::small().await;
    let openapi = served.json("/v1/openapi").await;
    let paths: BTreeSet<&str> = openapi["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["/graph", "/v1/graph", "/v1/openapi", "/v1/signatures/sha256={digest}/signature-{number}"];
    assert_eq!(paths, BTreeSet::from(expected));
    for path in paths {
        // 404 of a path that nobody serves says another thing than 404 of a signature that is not there.
        let path = path.replace("{digest}", &"0".repeat(64)).replace("{number}", "1");
        let post = client().post(format!("{}{path}", served.url)).send().await.unwrap();
        assert_eq!(post.status(), 405, "{path}");
    }
    for parameter in ["channel", "version", "id", "arch", "view"] {
        assert_eq!(openapi["components"]["parameters"][parameter]["name"], parameter);
    }
    let text = openapi.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(openapi.pointer(reference).is_some(), "{reference}");
    }
}

#[tokio::test]
async fn before_the_first_graph_there_is_a_reason() {
    let current = Current::default();
    let served = Served::start(settings(), current).await;
    let response = served.get(ASK).await;
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["kind"], "not_ready");
    assert_eq!(body["value"], "the first look at the sources is not done yet");
    assert_eq!(served.get("/readyz").await.status(), 503);
    assert_eq!(served.get("/livez").await.status(), 200);
    served.current.failed("the registry is down".to_owned());
    served.handle.refreshed().await;
    assert_eq!(served.error(ASK).await.2, "the registry is down");
    assert_eq!(served.metric("ready").await, 0);
    served.current.publish(small());
    served.handle.refreshed().await;
    assert_eq!(served.get(ASK).await.status(), 200);
    assert_eq!(served.get("/readyz").await.status(), 200);
    assert_eq!(served.metric("ready").await, 1);
}

#[tokio::test]
async fn an_old_graph_is_served_with_its_age() {
    let mut snapshot = snapshot(small_document());
    snapshot.confirmed = (Instant::now() - Duration::from_secs(100)).into();
    let served = Served::with(settings(), snapshot).await;
    assert!(!served.get(ASK).await.headers().contains_key("age"));
    served.current.failed("no\nroute".to_owned());
    served.handle.refreshed().await;
    let response = served.get(ASK).await;
    assert_eq!(response.status(), 200);
    let age: u64 = response.headers()["age"].to_str().unwrap().parse().unwrap();
    assert!((100..200).contains(&age));
    assert_eq!(response.headers()["holdfast-graph-stale"], "no?route");
    assert_eq!((served.metric("stale").await, served.metric("stale_answers_total").await), (1, 1));
}

#[tokio::test]
async fn what_is_counted_can_be_read_on_its_own_port() {
    let admin = Some(([127, 0, 0, 1], 0).into());
    let served = Served::with(Settings { admin, ..settings() }, small()).await;
    for _ in 0..3 {
        served.get(ASK).await;
    }
    served.get("/v1/graph").await;
    for (name, value) in [
        ("requests_total{status=\"200\"}", 3),
        ("requests_total{status=\"400\"}", 1),
        ("answer_cache_hits_total", 2),
        ("answer_cache_misses_total", 1),
        ("nodes", 8),
        ("edges{kind=\"plain\"}", 6),
        ("edges{kind=\"conditional\"}", 2),
        ("notes{severity=\"error\"}", 0),
        ("scrapes_total{result=\"ok\"}", 1),
    ] {
        assert_eq!(served.metric(name).await, value, "{name}");
    }
    assert!(served.metric("answer_cache_bytes").await > 1000);
    let admin = served.admin.clone().unwrap();
    assert_eq!(served.get("/metrics").await.status(), 404);
    assert_eq!(client().get(format!("{admin}{ASK}")).send().await.unwrap().status(), 404);
}
