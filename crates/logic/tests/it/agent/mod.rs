//! Every state that the agent can reach with its machine, its quarantine and its transactions: failures, forged images,
//! crashes before and after every effect.

mod rotation;
mod world;

use testkit::explore::explore;
use testkit::proof::{self, Kind};

use rotation::{Cluster, Confusion};
use world::{Mistake, Rig};

const LIMIT: usize = 2_000_000;

#[test]
fn no_path_applies_what_was_not_checked_and_none_leaves_the_machine_between_releases() {
    match explore(&Rig { mistake: None }, LIMIT) {
        Ok(explored) => {
            println!("{explored}");
            assert!(explored.states > 1_000, "only {explored}");
            proof::count(Kind::States, explored.states);
        }
        Err(example) => panic!("{example}"),
    }
}

#[test]
fn the_walk_finds_every_mistake_that_is_made_on_purpose() {
    for mistake in Mistake::ALL {
        let found = explore(&Rig { mistake: Some(mistake) }, LIMIT);
        let example = found.err().unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: {example}");
    }
}

#[test]
fn in_a_cluster_whatever_is_begun_was_signed_by_the_keys_of_what_runs_and_the_last_release_stays_in_reach() {
    match explore(&Cluster { confusion: None }, LIMIT) {
        Ok(explored) => {
            println!("{explored}");
            assert!(explored.states > 100, "only {explored}");
            proof::count(Kind::States, explored.states);
        }
        Err(example) => panic!("{example}"),
    }
}

#[test]
fn the_walk_of_a_cluster_finds_keys_that_change_too_early_too_late_or_for_nothing() {
    for confusion in Confusion::ALL {
        let found = explore(&Cluster { confusion: Some(confusion) }, LIMIT);
        let example = found.err().unwrap_or_else(|| panic!("{confusion:?} is not found"));
        println!("{confusion:?}: {example}");
    }
}
