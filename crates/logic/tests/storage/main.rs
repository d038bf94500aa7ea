//! Every order of events around one resource: storage versions that change, servers that disagree, objects written by
//! others, crashes between any two writes, old heartbeats, migrations that finish, fail, or are deleted. The shipped
//! `next` decides; after each step, whatever may be stored is written down, or said to be unknown.

mod world;

use testkit::explore::explore;
use world::{Mistake, Site, World};

const SITES: [(&str, Site); 3] = [
    ("a custom resource, watched", Site { servers: 1, watched: true }),
    ("a built-in resource, polled", Site { servers: 1, watched: false }),
    ("two API servers", Site { servers: 2, watched: false }),
];

/// More than any of the walks has; fewer would not be all of them.
const LIMIT: usize = 4_000_000;

#[test]
fn what_may_be_stored_is_always_written_down() {
    for (name, site) in SITES {
        let found = explore(&World { site, mistake: None }, LIMIT);
        match found {
            Ok(explored) => {
                println!("{name}: {explored}");
                assert!(explored.states > 10_000, "{name}: only {explored}");
            }
            Err(counter_example) => panic!("{name}: {counter_example}"),
        }
    }
}

#[test]
fn a_mistake_in_any_rule_is_found() {
    for mistake in Mistake::ALL {
        let found = SITES.iter().find_map(|(name, site)| {
            let world = World { site: *site, mistake: Some(mistake) };
            explore(&world, LIMIT).err().map(|found| (name, found))
        });
        let (name, found) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: found in {} steps ({name}): {}", found.path.len(), found.why);
    }
}
