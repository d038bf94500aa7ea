//! Every order of events around one image on two disks: managers that die and come back, a node that is cut off, copies that
//! go bad, fetches that fail, hand-overs that break, people who create, spread, clean up and remove, a service that is
//! restarted between any two writes. The shipped functions decide; each call is judged when it is made, and from every
//! moment a time must be reachable at which everything that is wanted is there.

mod tables;
mod world;

use testkit::explore::explore;
use testkit::proof::{self, Kind};
use testkit::sample::full_or;
use world::{Cast, Mistake, World};

/// `most`: acts of people in the first, troubles in the second.
fn casts(most: u8) -> [(&'static str, Cast); 3] {
    [
        (
            "two disks of one machine, and a volume",
            Cast { remote: false, old: false, volume: true, acts: most, troubles: 1 },
        ),
        (
            "a disk here and one on a node that is cut off",
            Cast { remote: true, old: false, volume: false, acts: 1, troubles: most },
        ),
        (
            "an old manager that hands over",
            Cast { remote: true, old: true, volume: false, acts: 1, troubles: 1 },
        ),
    ]
}

/// More than any of the walks has; fewer would not be all of them.
const LIMIT: usize = 3_000_000;

#[test]
fn whatever_happens_no_copy_is_lost_and_everything_wanted_comes() {
    let mut states = 0;
    for (name, cast) in casts(full_or(2, 1)) {
        match explore(&World { cast, mistake: None }, LIMIT) {
            Ok(explored) => {
                println!("{name}: {explored}");
                assert!(explored.states > 1_000, "{name}: only {explored}");
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
        // In `make test` the small casts first: most mistakes are found in them, and sooner.
        let casts = full_or(vec![2], vec![1, 2]).into_iter().flat_map(casts);
        let found = casts.into_iter().find_map(|(name, cast)| {
            let world = World { cast, mistake: Some(mistake) };
            explore(&world, LIMIT).err().map(|found| (name, found))
        });
        let (name, found) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        assert!(!found.why.contains("not explored"), "{mistake:?}: {}", found.why);
        println!("{mistake:?}: found in {} steps ({name}): {}", found.path.len(), found.why);
    }
}
