//! What clients see: the pictures of the document, and everything that bends them.

use logic::graph::Owners;

use super::world::{World, seen, seen_with};

/// The document's example: alpha points further than beta, and beta does not approve 1.1.0.
fn example() -> World {
    World::default()
        .release("1.0.0", &[])
        .release("1.1.0", &["1.0.0"])
        .release("1.1.1", &["1.0.0", "1.1.0"])
        .release("1.2.0", &["1.1.1"])
        .release("1.3.0", &["1.0.0", "1.1.0", "1.1.1", "1.2.0"])
        .channel("alpha", &["1.0.0", "1.1.0", "1.1.1", "1.2.0", "1.3.0"])
        .channel("beta", &["1.0.0", "1.1.1", "1.2.0"])
}

#[test]
fn a_channel_leads_to_its_newest_release() {
    let graph = example().graph();
    let (versions, edges) = seen(&graph, "1.0.0", "beta", "amd64");
    assert_eq!(versions, ["1.0.0", "1.1.1", "1.2.0"]);
    assert_eq!(edges, ["1.0.0 -> 1.1.1", "1.1.1 -> 1.2.0"]);
    assert_eq!(seen(&graph, "1.0.0", "alpha", "amd64").0.len(), 5);
}

#[test]
fn a_channel_leads_to_where_it_points() {
    let graph = example().channel("slow", &["1.0.0", "1.1.0", "1.1.1", "1.3.0"]).target("1.1.1").graph();
    let (versions, edges) = seen(&graph, "1.0.0", "slow", "amd64");
    assert_eq!(versions, ["1.0.0", "1.1.0", "1.1.1"]);
    assert_eq!(edges, ["1.0.0 -> 1.1.0", "1.0.0 -> 1.1.1", "1.1.0 -> 1.1.1"]);
}

#[test]
fn a_pointer_to_what_is_not_approved_or_not_there_holds_clients_before_it() {
    for target in ["1.2.0", "1.2.77"] {
        let graph = example().channel("slow", &["1.0.0", "1.1.0", "1.1.1", "1.3.0"]).target(target).graph();
        assert_eq!(seen(&graph, "1.0.0", "slow", "amd64").0, ["1.0.0", "1.1.0", "1.1.1"], "{target}");
        assert_eq!(seen(&graph, "1.2.0", "slow", "amd64").0, ["1.2.0"], "nobody is led beyond the pointer");
    }
}

#[test]
fn those_on_a_release_that_is_not_approved_can_leave_it() {
    let graph = example().graph();
    assert_eq!(seen(&graph, "1.1.0", "beta", "amd64").0, ["1.1.0", "1.1.1", "1.2.0"]);
}

#[test]
fn where_the_target_is_out_of_reach_the_newest_within_reach_is_the_leaf() {
    let graph = example().release("9.0.0", &[]).channel("far", &["1.0.0", "1.1.0", "9.0.0"]).graph();
    assert_eq!(seen(&graph, "1.0.0", "far", "amd64").0, ["1.0.0", "1.1.0"]);
    assert_eq!(seen(&graph, "9.0.0", "far", "amd64").0, ["9.0.0"]);
}

#[test]
fn nothing_is_shown_of_a_release_or_channel_or_architecture_that_is_not_known() {
    let graph =
        World::default().chain(&["1.0.0+amd64", "1.1.0+amd64"]).channel("stable", &["1.0.0", "1.1.0"]);
    let graph = graph.graph();
    let none = (vec![], vec![]);
    assert_eq!(seen(&graph, "7.0.0", "stable", "amd64"), none);
    assert_eq!(seen(&graph, "1.0.0", "stable", "64"), none);
    assert_eq!(seen(&graph, "1.0.0", "stable", "arm64"), none);
    assert_eq!(seen(&graph, "1.0.0", "other", "amd64").0, ["1.0.0"], "the root is there, without a way");
    assert_eq!(seen(&graph, "1.0.0", "stable", "amd64").0, ["1.0.0", "1.1.0"]);
}

#[test]
fn conditional_edges_are_ways_and_stay_conditional() {
    let graph = example().risk("1.2.0", ".*", "Slow").graph();
    let (versions, edges) = seen(&graph, "1.0.0", "beta", "amd64");
    assert_eq!(versions, ["1.0.0", "1.1.1", "1.2.0"]);
    assert_eq!(edges, ["1.0.0 -> 1.1.1", "1.1.1 ?> 1.2.0"]);
}

#[test]
fn the_whole_channel_is_shown_when_asked_for() {
    let graph = example().graph();
    let (versions, _) = seen_with(&graph, "1.2.0", "beta", "amd64", &Default::default(), true);
    assert_eq!(versions, ["1.0.0", "1.1.1", "1.2.0"]);
}

#[test]
fn a_withdrawn_release_stays_for_those_on_it_and_is_entered_by_none() {
    let graph = example().block("1.2.0", ".*").graph();
    assert_eq!(seen(&graph, "1.0.0", "alpha", "amd64").0, ["1.0.0", "1.1.0", "1.1.1", "1.3.0"]);
    assert_eq!(seen(&graph, "1.2.0", "alpha", "amd64").0, ["1.2.0", "1.3.0"]);
}

const OWNERS: &str = r#"
[ids]
device-1 = "acme"

[[override]]
channel = "beta"
remove-releases = ["1.2.0"]

[[override]]
owner = "acme"
add-releases = ["1.3.0"]
add-edges = [["1.1.1", "1.3.0"], ["1.3.0", "1.0.0"]]

[[override]]
owner = "held"
hold = true

[[override]]
id = "device-2"
add-releases = ["1.2.0"]
"#;

#[test]
fn who_asks_matters() {
    let graph = example().graph();
    let owners: Owners = toml::from_str(OWNERS).unwrap();
    let sees = |id: &str, owner: Option<&str>| {
        let applying = owners.applying(id, owner, "beta");
        seen_with(&graph, "1.0.0", "beta", "amd64", &owners.overrides(&applying), false)
    };
    assert_eq!(sees("anybody", None).0, ["1.0.0", "1.1.1"], "the fleet's removal");
    let (versions, edges) = sees("device-1", Some("somebody else"));
    assert_eq!(versions, ["1.0.0", "1.1.1", "1.3.0"], "the file's owner counts before a looked-up one");
    assert_eq!(
        edges,
        ["1.0.0 -> 1.1.1", "1.0.0 -> 1.3.0", "1.1.1 -> 1.3.0"],
        "an edge that closes a cycle does not count"
    );
    assert_eq!(sees("anybody", Some("held")).0, ["1.0.0"]);
    assert_eq!(sees("device-2", None).0, ["1.0.0", "1.1.1", "1.2.0"], "an id's rule beats the fleet's");
    assert!(owners.applying("anybody", None, "alpha").is_empty());
}
