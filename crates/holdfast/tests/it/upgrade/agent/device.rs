//! A device that boots deployments of its operating system, with guard in the loop: what the agent has moved is part of the
//! data that guard keeps, and goes back with it when the device does.

use std::fs;
use std::process::Command;

use super::world::World;
use crate::upgrade::site::{Release, Slot};

/// A device between two boots.
struct Device {
    world: World<Slot>,
    boots: u32,
    deployment: &'static str,
}

impl Device {
    fn new() -> Self {
        let world = World::<Slot>::new();
        for (booted, other) in [("d1", "d2"), ("d2", "d1")] {
            let text = format!(r#"{{"booted":"{booted}","rollback":"{other}","deployments":["d1","d2"]}}"#);
            fs::write(world.site.root.join(format!("{booted}.json")), text).unwrap();
        }
        Self { world, boots: 0, deployment: "d1" }
    }

    #[track_caller]
    fn guard(&self, words: &[&str]) -> String {
        let mut command: Command = self.world.site.command(&["guard"]);
        let root = &self.world.site.root;
        let output = command
            .args(words)
            .env("HOLDFAST_GUARD_DATA_DIR", self.world.site.appliances())
            .env("HOLDFAST_GUARD_BACKUPS_DIR", root.join("backups"))
            .env("HOLDFAST_GUARD_DEPLOYMENTS", root.join(format!("{}.json", self.deployment)))
            .env("HOLDFAST_GUARD_BOOT_ID", format!("boot-{}", self.boots))
            // Of the supervisor that is in the operating system, and what guard takes data without a record for; releases of
            // the appliance are the data's own business.
            .env("HOLDFAST_GUARD_WORKLOAD_VERSION", "4.13.0")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        said
    }

    /// Goes down, and comes up with this deployment: guard first, then appliances, then the agent.
    fn boot(&mut self, deployment: &'static str) {
        self.world.kill_agent();
        self.world.ends(&["appliance", "stop", "--all"], 0);
        self.boots += 1;
        self.deployment = deployment;
        println!("boot {} of {deployment}: {}", self.boots, self.guard(&["pre-run"]));
        self.guard(&["run", "--", "true"]);
        self.world.ends(&["appliance", "start", "--wanted"], 0);
        self.world.start_agent();
    }

    fn verdict(&self, verdict: &str) {
        self.guard(&["persist-system-health", verdict]);
    }
}

#[test]
fn what_the_agent_has_moved_goes_back_with_the_device_and_is_moved_again() {
    let mut device = Device::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2));
    device.world.publish(&second);
    device.world.automatic();
    device.world.start_graph();
    device.boot("d1");
    device.world.ends_as(&second, "completed");
    device.world.site.put("bread", "two");
    device.verdict("--healthy");
    // The next boot backs up what that one has vouched for.
    device.boot("d1");
    device.world.site.serves(&second);
    assert_eq!(device.world.site.note("bread").as_deref(), Some("two"));
    device.verdict("--healthy");
    // Another operating system, on which the appliance moves on, and which turns out to be unhealthy.
    device.boot("d2");
    device.world.publish(&third);
    device.world.ends_as(&third, "completed");
    device.world.site.put("bread", "three");
    device.verdict("--unhealthy");
    // Back on the one before, nothing moves yet: guard has put release 2 and its data back.
    device.world.ends(&["agent", "pause", "a", "look"], 0);
    device.boot("d1");
    device.world.site.serves(&second);
    assert_eq!(device.world.site.note("bread").as_deref(), Some("two"));
    device.verdict("--healthy");
    // The agent sees what runs, not what it remembers: release 3 is on offer, and is taken once more.
    let tried =
        || device.world.attempts().iter().filter_map(|attempt| attempt["times"].as_u64()).sum::<u64>();
    let before = tried();
    device.world.ends(&["agent", "resume"], 0);
    device
        .world
        .site
        .wait("release 3 is taken again", || tried() > before && device.world.agent_state() == "looking");
    device.world.ends_as(&third, "completed");
    device.world.site.serves(&third);
    assert_eq!(device.world.site.note("bread").as_deref(), Some("two"));
    device.world.nothing_left();
}

#[test]
fn a_broken_release_is_rolled_back_and_stays_away_over_the_next_boot() {
    let mut device = Device::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2).never_ready());
    device.world.publish(&second);
    device.world.automatic();
    device.world.start_graph();
    device.boot("d1");
    device.world.ends_as(&second, "completed");
    device.world.site.put("bread", "two");
    device.world.publish(&third);
    device.world.ends_as(&third, "rolled-back");
    device.verdict("--healthy");
    device.boot("d1");
    device.world.ends(&["agent", "check"], 0);
    device.world.site.serves(&second);
    assert_eq!(device.world.site.note("bread").as_deref(), Some("two"));
    assert_eq!(device.world.attempts().len(), 2, "{:#}", device.world.books());
    device.world.nothing_left();
}
