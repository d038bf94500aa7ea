//! The sample of `make test`: reproducible, spread over everything, different for every change, and complete in time.

use std::collections::BTreeSet;

use testkit::sample::Sample;

const POINTS: usize = 800;

fn drawn(seed: &str, name: &str) -> BTreeSet<usize> {
    Sample::with(8, seed, name).points(0..POINTS).collect()
}

#[test]
fn one_point_of_every_eight_neighbours_is_drawn() {
    let points = drawn("a tree", "a test");
    assert_eq!(points.len(), POINTS / 8);
    let blocks: BTreeSet<usize> = points.iter().map(|point| point / 8).collect();
    assert_eq!(blocks.len(), POINTS / 8);
}

#[test]
fn the_same_seed_draws_the_same_points_and_another_seed_or_name_draws_others() {
    let points = drawn("a tree", "a test");
    assert_eq!(points, drawn("a tree", "a test"));
    assert_ne!(points, drawn("another tree", "a test"));
    assert_ne!(points, drawn("a tree", "another test"));
    let part = Sample::with(8, "a tree", "a test").stratum("a part");
    assert_ne!(points, part.points(0..POINTS).collect());
}

#[test]
fn the_samples_of_successive_changes_add_up() {
    let after = |changes: usize| {
        let all: BTreeSet<usize> =
            (0..changes).flat_map(|change| drawn(&format!("tree {change}"), "a test")).collect();
        all.len() * 100 / POINTS
    };
    let (eight, twenty_four) = (after(8), after(24));
    assert!((60..=71).contains(&eight), "{eight} % after eight changes");
    assert!(twenty_four >= 93, "{twenty_four} % after 24 changes");
}

#[test]
fn a_whole_run_leaves_nothing_out() {
    let whole = Sample::with(1, "a tree", "a test");
    assert!(whole.is_whole());
    assert_eq!(whole.points(0..POINTS).count(), POINTS);
    assert_eq!(whole.with_ends(0..POINTS).count(), POINTS);
    assert_eq!(whole.rotate(&["xfs", "ext4"]).len(), 2);
}

#[test]
fn every_variant_has_its_turn_and_the_share_of_all_points_stays_one_in_eight() {
    let variants = ["xfs", "ext4", "btrfs", "subvolume"];
    let mut seen = BTreeSet::new();
    for change in 0..40 {
        let sample = Sample::with(8, &format!("tree {change}"), "a test");
        let drawn = sample.rotate(&variants);
        let [(variant, of_it)] = &drawn[..] else { panic!("{} variants", drawn.len()) };
        assert_eq!(of_it.points(0..POINTS).count() * variants.len() * 2, POINTS * variants.len());
        seen.insert(**variant);
    }
    assert_eq!(seen.len(), variants.len(), "{seen:?}");
}

#[test]
fn the_first_and_the_last_point_are_always_tried() {
    for change in 0..40 {
        let sample = Sample::with(8, &format!("tree {change}"), "a test");
        let drawn: Vec<usize> = sample.with_ends(0..100).collect();
        assert_eq!((drawn.first(), drawn.last()), (Some(&0), Some(&99)));
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]), "{drawn:?}");
        assert!((12..=15).contains(&drawn.len()), "{drawn:?}");
    }
    let sample = Sample::with(8, "a tree", "a test");
    assert_eq!(sample.with_ends(5..6).collect::<Vec<_>>(), [5]);
    assert_eq!(sample.with_ends(0..0).count(), 0);
}

#[test]
fn a_command_that_makes_more_calls_than_expected_is_followed_to_its_end() {
    let sample = Sample::with(8, "a tree", "a test");
    let expected: Vec<usize> = sample.with_ends(0..50).chain(50..60).collect();
    assert_eq!(sample.until_end(50).take_while(|point| *point < 60).collect::<Vec<_>>(), expected);
}

#[test]
fn a_sample_of_a_variant_shows_what_repeats_it_and_is_not_whole() {
    let sample = Sample::with(4, "a tree", "a test");
    let variants = ["xfs", "ext4", "btrfs", "subvolume"];
    let drawn = sample.rotate(&variants);
    let [(_, of_it)] = &drawn[..] else { panic!("{} variants", drawn.len()) };
    assert_eq!(of_it.points(0..POINTS).count(), POINTS, "all points of one of four variants");
    assert!(!of_it.is_whole(), "three variants are left out");
    assert_eq!(of_it.to_string(), "HOLDFAST_SAMPLE=4 HOLDFAST_SEED=a tree");
}
