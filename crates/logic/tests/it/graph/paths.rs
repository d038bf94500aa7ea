//! Ways, and what is in them.

use logic::graph::diff::{Offer, diff};
use logic::graph::path::{Hindrance, Path, path};

use super::world::{World, name};

fn way(world: World, from: &str, to: &str, channel: &str) -> Path {
    let version = |text: &str| semver::Version::parse(text).unwrap();
    path(&world.graph(), &version(from), &version(to), Some(channel), None)
}

fn world() -> World {
    World::default()
        .chain(&["1.0.0", "1.1.0", "1.2.0"])
        .release("1.3.0", &["1.0.0", "1.2.0"])
        .channel("stable", &["1.0.0", "1.1.0", "1.2.0", "1.3.0"])
}

fn stops(path: &Path) -> Vec<String> {
    match path {
        Path::Way { hops } | Path::Hindered { hops, .. } => {
            hops.iter().map(|hop| hop.to.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_way_with_the_fewest_risks_is_shown() {
    assert_eq!(stops(&way(world(), "1.0.0", "1.3.0", "stable")), ["1.3.0"]);
    let risky = world().risk("1.3.0", r"^1\.0", "Slow");
    assert_eq!(stops(&way(risky, "1.0.0", "1.3.0", "stable")), ["1.1.0", "1.2.0", "1.3.0"]);
}

#[test]
fn a_way_that_is_not_there_says_what_took_it() {
    let blocked = world().block("1.3.0", ".*");
    let Path::Hindered { hops, hindrances } = way(blocked, "1.0.0", "1.3.0", "stable") else { panic!() };
    assert_eq!(hops.len(), 1);
    let [Hindrance::Removed { from, by, .. }] = &hindrances[..] else { panic!("{hindrances:?}") };
    assert_eq!((from.to_string().as_str(), by.as_str()), ("1.0.0", "blocked-edges/1.3.0-0.yaml:1"));
}

#[test]
fn a_way_that_is_not_approved_says_where_it_is() {
    let Path::Hindered { hindrances, .. } =
        way(world().channel("slow", &["1.0.0"]), "1.0.0", "1.3.0", "slow")
    else {
        panic!()
    };
    let expected = Hindrance::NotApproved {
        release: name("1.3.0"),
        channel: "slow".to_owned(),
        approved_for: vec!["stable".to_owned()],
    };
    assert_eq!(hindrances, [expected]);
}

#[test]
fn where_nothing_leads_the_newest_within_reach_is_told() {
    let path = way(world().release("9.0.0", &[]), "1.1.0", "9.0.0", "stable");
    assert_eq!(path, Path::None { newest: Some(name("1.3.0")) });
    assert_eq!(way(world(), "1.1.0", "1.1.0", "stable"), Path::Here);
    assert_eq!(way(world(), "1.1.0", "7.0.0", "stable"), Path::Unknown { release: name("7.0.0") });
}

#[test]
fn two_graphs_are_told_apart() {
    let before = world().graph();
    let mut changed =
        world().release("1.4.0", &["1.3.0"]).risk("1.3.0", r"^1\.0", "Slow").block("1.2.0", ".*");
    changed.harvest.releases[0].payload = "elsewhere".to_owned();
    let after = changed.graph();
    let difference = diff(&before, &after);
    assert_eq!(difference.added_releases, [name("1.4.0")]);
    assert_eq!(difference.changed_releases[0].what[0].key, "payload");
    let edges: Vec<_> =
        difference.edges.iter().map(|edge| (edge.to.to_string(), edge.after.clone())).collect();
    assert_eq!(
        edges,
        [
            ("1.3.0".to_owned(), Offer::Conditional(vec!["Slow".to_owned()])),
            ("1.2.0".to_owned(), Offer::Not),
            ("1.4.0".to_owned(), Offer::Plain)
        ]
    );
    assert_eq!(diff(&after, &before).removed_releases, [name("1.4.0")]);
    assert!(diff(&before, &before).is_empty());
}
