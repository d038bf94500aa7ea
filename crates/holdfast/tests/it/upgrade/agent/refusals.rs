//! Lied to: refused with its reason, nothing applied, nothing left behind.

use std::fs;

use serde_json::{Value, json};

use testkit::origin::Origin;

use super::world::{Published, World, version};
use crate::upgrade::site::{Release, Slot};

fn second() -> Release {
    Release::of(2).with_data(2)
}

/// Published wrongly: tried, refused for this reason, and release 1 goes on as if nothing had been.
#[track_caller]
fn refused(world: &mut World<Slot>, why: &str) {
    world.start_graph();
    let before = world.site.get("/started").map(|answer| answer.body);
    let done = world.ends(&["agent", "update", "--to", &version(&second())], 4);
    assert!(done.err.contains(why), "{}\n{}", done.err, world.log());
    let attempt = world.ends_as(&second(), "refused");
    assert!(attempt["why"].as_str().unwrap().contains(why), "{attempt:#}");
    world.nothing_left();
    world.site.serves(&Release::of(1));
    assert_eq!(world.site.get("/started").map(|answer| answer.body), before, "it was started again");
}

#[test]
fn an_image_that_nobody_signed_is_refused() {
    let mut world = World::<Slot>::new();
    let published = Published { signed: false, ..Published::rightly(&second()) };
    world.publish_as(&second(), &published);
    refused(&mut world, "sign");
}

#[test]
fn an_image_that_a_stranger_signed_is_refused() {
    let mut world = World::<Slot>::new();
    let published = Published { signed: false, ..Published::rightly(&second()) };
    let digest = world.publish_as(&second(), &published);
    let directory = world.site.root.join("stranger");
    fs::create_dir_all(&directory).unwrap();
    let stranger = testkit::releases::CosignKey::new(&directory, "p256");
    world.releases.sign_cosign(&digest, &stranger);
    refused(&mut world, "sign");
}

#[test]
fn a_signature_of_another_image_is_refused() {
    let mut world = World::<Slot>::new();
    let published = Published { signed: false, ..Published::rightly(&second()) };
    let digest = world.publish_as(&second(), &published);
    let other =
        testkit::releases::claims(&format!("sha256:{}", "0".repeat(64)), "cosign container image signature");
    let signature = world.key.sign(&other);
    world.releases.file_cosign(&digest, &other, &signature);
    refused(&mut world, "sign");
}

/// A graph of our own making: what the publisher's would not say.
fn with_graph(world: &mut World<Slot>, nodes: &Value, edges: &Value) -> Origin {
    let graph = json!({"version": 1, "nodes": nodes, "edges": edges});
    let origin = Origin::start(graph.to_string().into_bytes());
    world.settings.push_str(&format!("upstream = {:?}\n", origin.url()));
    origin
}

#[test]
fn a_version_other_than_asked_for_is_refused() {
    let mut world = World::<Slot>::new();
    let digest = world
        .publish_as(&second(), &Published { claims: "7.0.0".to_owned(), ..Published::rightly(&second()) });
    let image = format!("oci:{}@{digest}", world.releases.layout.path.display());
    let nodes = json!([{"version": "1.0.0", "payload": ""}, {"version": "2.0.0", "payload": image}]);
    let _graph = with_graph(&mut world, &nodes, &json!([[0, 1]]));
    refused(&mut world, "7.0.0");
}

#[test]
fn a_release_that_does_not_list_the_running_one_is_refused() {
    let mut world = World::<Slot>::new();
    let digest = world.publish_as(
        &second(),
        &Published { previous: vec!["1.5.0".to_owned()], ..Published::rightly(&second()) },
    );
    let image = format!("oci:{}@{digest}", world.releases.layout.path.display());
    let nodes = json!([{"version": "1.0.0", "payload": ""}, {"version": "2.0.0", "payload": image}]);
    let _graph = with_graph(&mut world, &nodes, &json!([[0, 1]]));
    refused(&mut world, "previous");
}

#[test]
fn a_release_whose_migration_fails_is_refused() {
    let mut world = World::<Slot>::new();
    let release = second().with_migration(2, "#!/bin/sh\necho this data is too old >&2\nexit 1\n");
    world.publish(&release);
    refused(&mut world, "this data is too old");
    // Nobody waits for it: something else can be asked for.
    world.ends(&["agent", "check"], 0);
}

#[test]
fn a_way_back_is_never_taken() {
    let mut world = World::<Slot>::new();
    let digest = world.releases.get("1.0.0").digest.clone();
    let image = format!("oci:{}@{digest}", world.releases.layout.path.display());
    let nodes = json!([{"version": "1.0.0", "payload": image}, {"version": "0.9.0", "payload": image}]);
    let _graph = with_graph(&mut world, &nodes, &json!([[0, 1]]));
    let done = world.ends(&["agent", "update", "--to", "0.9.0"], 4);
    assert!(done.err.contains("older"), "{done:?}");
    // By itself even less, and the status says why.
    world.automatic().start_agent();
    world.until_the_agent_runs();
    for _ in 0..2 {
        let seen = world.ends(&["agent", "check"], 0).out;
        let offer = seen.lines().find(|line| line.starts_with("0.9.0")).unwrap();
        assert!(offer.contains("it is older than the running release"), "{seen}");
    }
    assert!(world.attempts().is_empty() && world.agent_state() == "looking", "{:#}", world.books());
    // Nor carried in.
    world.stop_agent();
    let old = Release::of(0);
    world.publish_as(&old, &Published { previous: vec!["1.0.0".to_owned()], ..Published::rightly(&old) });
    let from = format!("{}:0.0.0", world.releases.layout.path.display());
    let done = world.ends(&["agent", "update", "--from", &from], 4);
    assert!(done.err.contains("not newer than the running 1.0.0"), "{done:?}");
    world.nothing_left();
    world.site.serves(&Release::of(1));
}

#[test]
fn a_graph_that_never_answers_is_named_and_changes_nothing() {
    let mut world = World::<Slot>::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world
        .settings
        .push_str(&format!("automatic = true\nupstream = \"http://{}\"\n", silent.local_addr().unwrap()));
    world.start_agent();
    world.site.wait("its silence is told", || {
        let status = world.run(&["agent", "status"]).out;
        status.lines().any(|line| line.starts_with("trouble") && line.contains("the graph"))
    });
    world.site.serves(&Release::of(1));
    assert!(world.attempts().is_empty());
    world.stop_agent();
}
