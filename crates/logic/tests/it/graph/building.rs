//! What labels, blocks and mistakes make of a graph.

use logic::graph::document::{Document, DocumentNode, Payload};
use logic::graph::release::Origin;
use logic::graph::{GraphData, build};

use super::world::{World, codes, edges};

#[test]
fn releases_say_where_they_may_be_reached_from() {
    let mut world = World::default().release("1.0.0+amd64", &[]).release("1.1.0+amd64", &["1.0.0"]);
    world.harvest.releases[1].next = vec!["2.0.0".to_owned()];
    let graph = world.release("2.0.0+amd64", &[]).graph();
    assert_eq!(edges(&graph), ["1.0.0+amd64 -> 1.1.0+amd64", "1.1.0+amd64 -> 2.0.0+amd64"]);
}

#[test]
fn versions_in_labels_take_the_architecture_of_their_node() {
    let graph = World::default()
        .release("1.0.0+amd64", &[])
        .release("1.0.0+arm64", &[])
        .release("1.1.0+arm64", &[])
        .label("previous.add", "1.0.0")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0+arm64 -> 1.1.0+arm64"]);
}

#[test]
fn removal_beats_addition() {
    let world = World::default().chain(&["1.0.0", "1.1.0", "1.2.0"]).label("previous.add", "1.0.0, 1.1.0");
    assert_eq!(edges(&world.clone().graph()), ["1.0.0 -> 1.1.0", "1.0.0 -> 1.2.0", "1.1.0 -> 1.2.0"]);
    for (label, value, left) in [
        ("previous.remove", "1.0.0", vec!["1.0.0 -> 1.1.0", "1.1.0 -> 1.2.0"]),
        ("previous.remove", "*", vec!["1.0.0 -> 1.1.0"]),
        ("previous.remove_regex", r"^1\.0", vec!["1.0.0 -> 1.1.0", "1.1.0 -> 1.2.0"]),
        ("previous.remove_regex", ".*", vec!["1.0.0 -> 1.1.0"]),
    ] {
        assert_eq!(edges(&world.clone().label(label, value).graph()), left, "{label}={value}");
    }
    let next = world.raw("1.0.0", "next.remove", "1.2.0");
    assert_eq!(edges(&next.graph()), ["1.0.0 -> 1.1.0", "1.1.0 -> 1.2.0"]);
}

#[test]
fn a_pattern_sees_the_architecture_and_is_not_anchored() {
    let base = World::default().release("1.0.0+amd64", &[]).release("1.1.0+amd64", &["1.0.0"]);
    for (pattern, blocked) in
        [(r"^1\.0\.0$", false), (r"^1\.0\.0\+amd64$", true), ("0.0", true), (r"\+arm64$", false)]
    {
        let graph = base.clone().label("previous.remove_regex", pattern).graph();
        assert_eq!(edges(&graph).is_empty(), blocked, "{pattern}");
    }
}

#[test]
fn labels_of_graph_data_join_those_of_the_release() {
    let graph = World::default()
        .chain(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"])
        .label("previous.add", "1.0.0")
        .label("previous.remove_regex", "1.0.0")
        .raw("1.3.0", "previous.add", "1.1.0")
        .raw("1.3.0", "previous.remove_regex", "1.2.0")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0 -> 1.1.0", "1.1.0 -> 1.2.0", "1.1.0 -> 1.3.0"]);
}

#[test]
fn a_removed_release_is_gone_before_anything_else() {
    let (graph, notes) =
        World::default().chain(&["1.0.0", "1.1.0", "1.2.0"]).raw("1.1.0", "release.remove", "true").build();
    assert_eq!(graph.nodes().len(), 2);
    assert!(edges(&graph).is_empty());
    assert_eq!(codes(&notes), ["unknown-version"], "1.2.0 still names it");
}

#[test]
fn two_blocks_on_the_same_release_both_hold() {
    let graph = World::default()
        .chain(&["1.0.0", "1.1.0"])
        .release("1.2.0", &["1.0.0", "1.1.0"])
        .block("1.2.0", r"^1\.0\.0$")
        .block("1.2.0", r"^1\.1\.0$")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0 -> 1.1.0"]);
}

#[test]
fn a_pair_is_conditional_once_with_all_its_risks() {
    let graph = World::default()
        .chain(&["1.0.0", "1.1.0"])
        .risk("1.1.0", ".*", "Second")
        .risk("1.1.0", "1.0", "First")
        .risk("1.1.0", "1.0", "First")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0 ?> 1.1.0 (First Second)"]);
}

#[test]
fn a_conditional_block_for_one_architecture_leaves_the_others_their_edge() {
    let graph = World::default()
        .chain(&["1.0.0+amd64", "1.1.0+amd64"])
        .chain(&["1.0.0+arm64", "1.1.0+arm64"])
        .risk("1.1.0+arm64", ".*", "Slow")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0+amd64 -> 1.1.0+amd64", "1.0.0+arm64 ?> 1.1.0+arm64 (Slow)"]);
}

#[test]
fn a_block_holds_though_another_one_only_warns() {
    let graph = World::default()
        .chain(&["1.0.0", "1.1.0"])
        .risk("1.1.0", ".*", "Slow")
        .block("1.1.0", r"^1\.0\.0$")
        .graph();
    assert!(edges(&graph).is_empty());
}

#[test]
fn conditional_edges_are_found_before_labels_remove_plain_ones() {
    let graph = World::default()
        .chain(&["1.0.0", "1.1.0"])
        .label("previous.remove_regex", ".*")
        .risk("1.1.0", ".*", "Slow")
        .graph();
    assert_eq!(edges(&graph), ["1.0.0 ?> 1.1.0 (Slow)"]);
}

#[test]
fn unknown_versions_are_noted_and_skipped() {
    let (graph, notes) = World::default()
        .release("1.0.0", &["0.9.0", "not a version"])
        .label("next.add", "7.0.0")
        .raw("3.0.0", "previous.add", "1.0.0")
        .channel("stable", &["1.0.0", "5.0.0"])
        .block("6.0.0", ".*")
        .build();
    assert_eq!(graph.nodes().len(), 1);
    let unknown = codes(&notes).into_iter().filter(|code| *code == "unknown-version").count();
    assert_eq!((unknown, notes.len()), (5, 6), "{notes:#?}");
}

#[test]
fn of_two_images_with_one_version_the_first_tag_is_served() {
    let mut world = World::default().release("1.0.0", &[]).release("1.0.0", &[]);
    world.harvest.releases[0].origin =
        Origin { source: 0, tag: "b".to_owned(), digest: "sha256:b".to_owned() };
    world.harvest.releases[0].payload = "r@sha256:b".to_owned();
    world.harvest.releases[1].origin =
        Origin { source: 0, tag: "a".to_owned(), digest: "sha256:a".to_owned() };
    world.harvest.releases[1].payload = "r@sha256:a".to_owned();
    let (graph, notes) = world.clone().build();
    assert_eq!((graph.nodes().len(), graph.nodes()[0].payload.as_str()), (1, "r@sha256:a"));
    assert_eq!(codes(&notes), ["same-version"]);
    // Two tags on one manifest are one release, and nothing to talk about.
    world.harvest.releases[0].origin.digest = "sha256:a".to_owned();
    assert!(world.build().1.is_empty());
}

#[test]
fn the_edge_that_closes_a_cycle_is_dropped_and_the_versions_on_it_are_told() {
    let (graph, notes) = World::default()
        .release("1.0.0", &["1.2.0"])
        .release("1.1.0", &["1.0.0"])
        .release("1.2.0", &["1.1.0"])
        .release("2.0.0", &["1.2.0", "2.0.0"])
        .build();
    assert_eq!(edges(&graph), ["1.0.0 -> 1.1.0", "1.1.0 -> 1.2.0", "1.2.0 -> 2.0.0"]);
    let texts: Vec<String> = notes.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("cycle: 1.0.0 → 1.1.0 → 1.2.0 → 1.0.0"), "{texts:?}");
    assert!(texts[1].contains("2.0.0 → 2.0.0"), "{texts:?}");
}

#[test]
fn a_cycle_through_a_conditional_edge_is_one_too() {
    let (graph, notes) = World::default()
        .release("1.0.0", &["1.1.0"])
        .release("1.1.0", &["1.0.0"])
        .risk("1.0.0", ".*", "Back")
        .build();
    assert_eq!(edges(&graph), ["1.0.0 -> 1.1.0"]);
    assert_eq!(codes(&notes), ["cycle"]);
}

#[test]
fn a_way_back_that_closes_nothing_stays() {
    let graph = World::default().release("1.0.0", &["1.1.0"]).release("1.1.0", &[]).graph();
    assert_eq!(edges(&graph), ["1.1.0 -> 1.0.0"]);
}

#[test]
fn channels_are_the_union_of_files_and_labels_and_travel_with_the_node() {
    let graph = World::default()
        .release("1.0.0+amd64", &[])
        .label("release.channels", "beta, alpha")
        .release("1.0.0+arm64", &[])
        .channel("stable", &["1.0.0"])
        .channel("only-arm", &["1.0.0+arm64"])
        .graph();
    let label = |at: usize| &graph.nodes()[at].metadata["io.openshift.upgrades.graph.release.channels"];
    assert_eq!((label(0).as_str(), label(1).as_str()), ("alpha,beta,stable", "only-arm,stable"));
}

#[test]
fn a_graph_that_came_ready_made_is_read_as_it_is_and_its_labels_count() {
    let text = r#"{"version": 1, "nodes": [
        {"version": "1.0.0", "payload": "r@sha256:a"},
        {"version": "1.1.0", "payload": {"kind": "update.openshift.io/v0", "image": "r@sha256:b"},
         "metadata": {"io.openshift.upgrades.graph.previous.remove": "1.0.0"}},
        {"version": "1.2.0", "payload": {"kind": "something/v9", "image": "x"}, "metadata": {}},
        {"version": "1.3.0", "payload": "r@sha256:d", "metadata": {"io.openshift.upgrades.graph.release.arch": "arm64"}},
        {"version": "nonsense", "payload": ""}],
        "edges": [[0, 1], [0, 77], [1, 2]],
        "conditionalEdges": [{"edges": [{"from": "1.0.0", "to": "1.3.0"}], "risks": []},
            {"edges": [{"from": "1.0.0", "to": "1.1.0"}],
             "risks": [{"url": "u", "name": "N", "message": "m", "matchingRules": [{"type": "Always"}]}]}]}"#;
    let document: Document = serde_json::from_str(text).unwrap();
    let harvest = document.harvest(0).unwrap();
    let (graph, notes) = build(harvest, &GraphData::default());
    let payloads: Vec<&str> = graph.nodes().iter().map(|node| node.payload.as_str()).collect();
    assert_eq!(
        payloads,
        ["r@sha256:a", "r@sha256:b", "r@sha256:d"],
        "a node without metadata keeps its payload"
    );
    assert_eq!(edges(&graph), ["1.0.0 ?> 1.1.0 (N)"], "the label removes plain edges only");
    assert_eq!(codes(&notes), ["bad-edge", "bad-edge", "bad-node", "bad-node"], "{notes:#?}");
}

#[test]
fn a_graph_survives_being_written_and_read() {
    let graph = World::default()
        .chain(&["1.0.0+amd64", "1.1.0+amd64", "1.2.0+amd64"])
        .risk("1.2.0", ".*", "Slow")
        .channel("stable", &["1.0.0", "1.1.0"])
        .graph();
    let document = Document::of(&graph);
    let text = serde_json::to_string(&document).unwrap();
    let read: Document = serde_json::from_str(&text).unwrap();
    assert_eq!(read, document);
    let (again, notes) = build(read.harvest(0).unwrap(), &GraphData::default());
    assert!(notes.is_empty(), "{notes:#?}");
    assert_eq!((again.nodes(), edges(&again)), (graph.nodes(), edges(&graph)));
    assert!(logic::graph::diff::diff(&graph, &again).is_empty());
}

#[test]
fn a_document_of_a_later_shape_is_refused() {
    let node = DocumentNode { version: "1.0.0".into(), payload: Payload::default(), metadata: [].into() };
    let document = Document { version: 2, nodes: vec![node], ..Document::default() };
    assert!(document.harvest(0).unwrap_err().to_string().contains("version 2"));
}
