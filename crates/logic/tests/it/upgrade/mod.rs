//! Every order of events around one appliance: upgrades, rollbacks, resumptions, steps that fail, kills and power cuts
//! before, inside and after every step. The shipped functions decide; in every state the data of one release or the
//! other is whole and reachable.

mod mistakes;
mod world;

use mistakes::Mistake;
use testkit::explore::explore;
use testkit::proof::{self, Kind};
use world::World;

/// More than the walk has; fewer would not be all of it.
const LIMIT: usize = 6_000_000;

#[test]
fn an_upgrade_is_done_or_undone_whatever_happens() {
    match explore(&World { mistake: None }, LIMIT) {
        Ok(explored) => {
            println!("upgrade: {explored}");
            assert!(explored.states > 10_000, "only {explored}");
            proof::count(Kind::States, explored.states);
        }
        Err(counter_example) => panic!("{counter_example}"),
    }
}

#[test]
fn a_mistake_in_any_rule_is_found() {
    for mistake in Mistake::ALL {
        let found = explore(&World { mistake: Some(mistake) }, LIMIT).err();
        let found = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: found in {} steps: {}", found.path.len(), found.why);
    }
}
