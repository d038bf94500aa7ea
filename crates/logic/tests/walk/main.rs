//! scratch
mod cast;
mod events;
mod invariants;
mod machine;
mod mistakes;
mod pack;
mod world;

use std::time::Instant;
use testkit::explore::explore;
use world::{Bounds, Walk};

fn env(name: &str, default: u8) -> u8 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn scratch() {
    let bounds = Bounds {
        boots: env("BOOTS", 3),
        faults_per_boot: env("FAULTS", 2),
        faults_in_all: env("ALLFAULTS", 15),
        bad_boots: env("BAD", 15),
        runs_per_boot: env("RUNS", 2),
        admin: env("ADMIN", 0) == 1,
        soft_reboots: env("SOFT", 0) == 1,
        data_from_before: env("BEFORE", 1) == 1,
    };
    let walk = Walk { cast: cast::Cast::new(), bounds, mistake: None };
    let begun = Instant::now();
    match explore(&walk, 20_000_000) {
        Ok(explored) => {
            println!("{} {explored} in {:?}", std::env::var("LABEL").unwrap_or_default(), begun.elapsed())
        }
        Err(found) => println!("{bounds:?}: in {:?} {found}", begun.elapsed()),
    }
}
