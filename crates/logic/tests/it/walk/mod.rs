//! An exhaustive walk over what can become of a device: every state that its disk can get into is visited, and none may
//! break the promise ("an intact copy of the data at least as new as the last healthy boot exists, and one command
//! brings it back") or any of the other rules in `invariants`.
//!
//! What decides is what ships: `plan`, `plan_restore`, `effects`, `retention`, `may_start` and `Boots` are called, not
//! imitated. The test's own part is the disk (`machine`), what happens to it (`world`, `carry`), and what is owed. Two
//! things that the walk relies on are proven apart: that the packed form of a state forgets nothing that a decision
//! sees (`proof`), and that the walk finds mistakes, by making some on purpose (`mistakes`).
//!
//! **What can happen.** A boot of any of three deployments, whose versions have every relation that the version check
//! knows; `pre-run`, any number of times; `run`, which records the start, stamps the data and then changes it; a
//! verdict, healthy or unhealthy, or one after the other, before the workload was started or after it, or none, with
//! retention after a healthy one; a soft reboot into another deployment. The host lists all deployments, only the booted
//! and the previous one, or cannot say. An administrator marks any deployment as healthy, restores any copy now or on
//! next boot, takes the request back, prunes, removes the data or copies a backup over it by hand (not if the data is
//! the only holder of what is owed: no program can prevent that).
//!
//! **Faults.** Before each effect, and inside each that has an inside (building, migrating, removing, and moving across
//! file systems): the power fails; the process is killed and started again in the same boot; the step fails, which it
//! says on record, with what it had begun left to the next start or undone at once.
//!
//! **Bounds.** At most two faults in a boot, always. The product of everything is too large, so a life has so many
//! *mishaps*, each of them a fault, a boot that goes badly (unhealthy, unjudged, or judged before the workload was
//! started) or an act of an administrator; which, when, and how many of each is left open. The tests say how many, over
//! how many boots; within that, each walk leaves nothing out. A walk with a bound on boots ends with one more boot
//! without a fault, which must end well.

mod carry;
mod cast;
mod events;
mod invariants;
mod machine;
mod mistakes;
mod pack;
mod proof;
mod world;

use std::time::Instant;

use cast::DEPLOYMENTS;
use mistakes::Mistake;
use testkit::explore::{Explored, explore};
use testkit::proof::{Kind, count};
use testkit::sample::full_or;
use world::{Bounds, Walk};

/// More than this is a sign that states that are the same have been told apart.
const LIMIT: usize = 12_000_000;

/// Everything can happen in it; how often and how long is for each walk to say.
const ANYTHING: Bounds = Bounds {
    boots: Some(3),
    faults_per_boot: 2,
    mishaps: 2,
    runs_per_boot: 1,
    administrator: true,
    soft_reboots: true,
    listings: true,
    data_from_before: true,
};

/// Nothing but faults and verdicts, on a host that always lists all of its deployments.
const FAULTS_AND_VERDICTS: Bounds = Bounds {
    administrator: false,
    soft_reboots: false,
    listings: false,
    data_from_before: false,
    ..ANYTHING
};

fn walk(name: &str, walk: &Walk) -> Explored {
    let begun = Instant::now();
    match explore(walk, LIMIT) {
        Ok(explored) => {
            let seconds = begun.elapsed().as_secs_f32();
            let most = walk.most_copies.get();
            println!("{name}: {explored}, at most {most} copies, {seconds:.0} s");
            count(Kind::States, explored.states);
            explored
        }
        Err(found) => panic!("{name}: {found}"),
    }
}

/// Walks within the bounds, which must lead to so many states at least.
fn walk_within(name: &str, bounds: Bounds, at_least: usize) {
    let explored = walk(&format!("{name}: {bounds:?}"), &Walk::within(bounds));
    assert!(explored.states >= at_least, "the walk has become smaller: {explored}");
}

// `full_or`: the bounds of `make prove`, and the smaller ones of `make test`.

#[test]
fn no_life_of_seven_boots_with_two_mishaps_breaks_the_promise() {
    let bounds = Bounds { boots: Some(full_or(7, 4)), ..FAULTS_AND_VERDICTS };
    assert!(bounds.faults_per_boot >= 2 && bounds.mishaps >= 2 && DEPLOYMENTS >= 3, "{bounds:?}");
    walk_within("many boots, two faults or bad boots", bounds, full_or(1_000_000, 50_000));
}

#[test]
fn no_number_of_boots_with_one_mishap_breaks_the_promise() {
    let administrator = full_or(true, false);
    let bounds = Bounds { boots: None, mishaps: 1, administrator, ..FAULTS_AND_VERDICTS };
    walk_within("any number of boots, one mishap", bounds, full_or(100_000, 10_000));
}

#[test]
fn two_faults_in_each_boot_do_not_break_the_promise() {
    let bounds = Bounds {
        boots: Some(2),
        mishaps: full_or(4, 3),
        runs_per_boot: full_or(2, 1),
        data_from_before: true,
        ..FAULTS_AND_VERDICTS
    };
    walk_within("two boots, two faults in each", bounds, full_or(100_000, 10_000));
}

#[test]
fn no_two_mishaps_of_any_kind_break_the_promise() {
    let bounds = Bounds { boots: Some(full_or(3, 2)), ..ANYTHING };
    walk_within("any two mishaps", bounds, full_or(100_000, 10_000));
}

#[test]
fn a_busy_administrator_does_not_break_the_promise() {
    let mishaps = full_or(3, 2);
    let bounds = Bounds { boots: Some(2), mishaps, soft_reboots: false, listings: false, ..ANYTHING };
    walk_within("two boots, any mishaps", bounds, full_or(100_000, 10_000));
}

#[test]
fn packing_forgets_nothing_that_a_plan_sees() {
    let bounds = Bounds { boots: Some(full_or(3, 2)), mishaps: 1, ..ANYTHING };
    let proof = Walk { proofreads: true, ..Walk::within(bounds) };
    let explored = walk("any one mishap, proofread", &proof);
    assert!(explored.states >= 1_000, "the walk has become smaller: {explored}");
}

#[test]
fn copies_do_not_grow_without_bound() {
    let healthy = Bounds { boots: None, mishaps: 0, listings: true, ..FAULTS_AND_VERDICTS };
    let device = Walk::within(healthy);
    walk("any number of healthy boots", &device);
    // Two healthy generations over all, one under its own name for each deployment, and the tree for the next one.
    assert!(device.most_copies.get() <= 6, "{} copies without any mishap", device.most_copies.get());
}

#[test]
fn every_mistake_made_on_purpose_is_found() {
    let bounds = Bounds { boots: Some(4), runs_per_boot: 2, listings: true, ..FAULTS_AND_VERDICTS };
    for mistake in Mistake::ALL {
        let only_the_promise = mistake.breaks_the_promise();
        let found =
            explore(&Walk { mistake: Some(mistake), only_the_promise, ..Walk::within(bounds) }, LIMIT);
        match found {
            Ok(explored) => panic!("{mistake:?} was not found in {explored}"),
            Err(found) => {
                println!("{mistake:?}: {found}");
                let is_what_it_should_be = ["the promise is broken", "the workload ran on half"]
                    .iter()
                    .any(|why| found.why.starts_with(why));
                assert!(!only_the_promise || is_what_it_should_be, "{mistake:?} was found as something else");
                assert!(!found.why.contains("not explored"), "{mistake:?} was not found in time");
            }
        }
    }
}
