//! Every order of events around one resource: storage versions that change, servers that disagree, objects written by
//! others, crashes between any two writes, old heartbeats, migrations that finish, fail, or are deleted. The shipped
//! `next` decides; after each step, whatever may be stored is written down, or said to be unknown.

mod world;

use testkit::explore::explore;
use testkit::proof::{self, Kind};
use testkit::sample::full_or;
use world::{Mistake, Site, World};

/// With two migrations at once in `make prove`, with one in `make test`.
fn sites() -> [(&'static str, Site); 3] {
    let site = |servers, watched| Site { servers, watched, migrations: full_or(2, 1) };
    [
        ("a custom resource, watched", site(1, true)),
        ("a built-in resource, polled", site(1, false)),
        ("two API servers", site(2, false)),
    ]
}

/// More than any of the walks has; fewer would not be all of them.
const LIMIT: usize = 4_000_000;

#[test]
fn what_may_be_stored_is_always_written_down() {
    let mut states = 0;
    for (name, site) in sites() {
        let found = explore(&World { site, mistake: None }, LIMIT);
        match found {
            Ok(explored) => {
                println!("{name}: {explored}");
                assert!(explored.states > 10_000, "{name}: only {explored}");
                states += explored.states;
            }
            Err(counter_example) => panic!("{name}: {counter_example}"),
        }
    }
    proof::count(Kind::States, states);
}

#[test]
fn a_mistake_in_any_rule_is_found() {
    for mistake in Mistake::ALL {
        let found = sites().iter().find_map(|(name, site)| {
            let world = World { site: *site, mistake: Some(mistake) };
            explore(&world, LIMIT).err().map(|found| (*name, found))
        });
        let (name, found) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        assert!(!found.why.contains("not explored"), "{mistake:?}: {}", found.why);
        println!("{mistake:?}: found in {} steps ({name}): {}", found.path.len(), found.why);
    }
}
