//! What must hold before an update begins: named with its way out, waited for, and gone on with when the way out is taken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use super::world::World;
use crate::upgrade::site::{Kind, Release, Slot};

fn second() -> Release {
    Release::of(2).with_data(2)
}

impl<K: Kind> World<K> {
    /// An executable that is asked before an update begins.
    pub fn precondition(&self, name: &str, script: &str) {
        let directory = self.site.root.join("preconditions.d");
        fs::create_dir_all(&directory).unwrap();
        // In one piece: the agent asks whoever is there.
        let draft = directory.join(format!(".{name}"));
        fs::write(&draft, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&draft, directory.join(name)).unwrap();
    }
}

/// The update is ready, and has not begun, for this reason.
#[track_caller]
fn waits(world: &World<Slot>, for_what: &str) {
    world.site.wait(for_what, || world.run(&["agent", "status"]).out.contains(for_what));
    assert_eq!(world.agent_state(), "holding", "{}", world.log());
    world.site.serves(&Release::of(1));
    world.site.state_is("up-to-date");
}

#[test]
fn an_executable_that_says_no_is_waited_for() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.precondition("battery", "echo the battery is at 7 %\necho plug it in\nexit 1");
    world.automatic();
    world.start_graph();
    world.start_agent();
    waits(&world, "waits for battery: the battery is at 7 % (plug it in)");
    world.precondition("battery", "exit 0");
    world.ends_as(&second(), "completed");
    world.site.serves(&second());
}

#[test]
fn while_it_is_paused_nothing_begins() {
    let mut world = World::<Slot>::new();
    world.automatic();
    world.ends(&["agent", "pause", "the", "fair"], 0);
    world.publish(&second());
    world.start_graph();
    world.start_agent();
    world.site.wait("it is asked", || world.run(&["agent", "status"]).out.contains("2.0.0"));
    // Asked once more, and chosen by then if it were to be.
    world.ends(&["agent", "check"], 0);
    assert!(world.attempts().is_empty() && world.agent_state() == "looking");
    // A person may ask for it; a pause is ended, and not passed over.
    world.ends(&["agent", "update", "--to", "2.0.0", "--force", "paused", "--no-wait"], 2);
    world.ends(&["agent", "update", "--to", "2.0.0", "--no-wait"], 0);
    waits(&world, "waits for paused: updates are paused: the fair (`holdfast agent resume`)");
    world.ends(&["agent", "resume"], 0);
    world.ends_as(&second(), "completed");
}

/// A window on a day that is neither today nor near it, wherever the machine is.
fn closed_window() -> String {
    let days = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / (24 * 3600);
    // The first day was a Thursday.
    let day = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"][usize::try_from((days + 3) % 7).unwrap()];
    format!("{day} 02:00-03:00")
}

#[test]
fn a_window_is_waited_for_unless_a_person_insists() {
    let mut world = World::<Slot>::new();
    let window = closed_window();
    world.settings.push_str(&format!("windows = [{window:?}]\n"));
    world.publish(&second());
    world.start_graph();
    world.automatic().start_agent();
    let way_out = "wait for it, or give `--force window` to `holdfast agent update`";
    waits(&world, &format!("waits for window: updates begin only {window} ({way_out})"));
    // By another name it is not passed over.
    world.ends(&["agent", "update", "--to", "2.0.0", "--force", "skew", "--no-wait"], 0);
    world.site.wait("it is left for the other", || world.attempts().len() == 1);
    assert_eq!(world.attempts()[0]["outcome"], "abandoned");
    waits(&world, "waits for window");
    world.ends(&["agent", "update", "--to", "2.0.0", "--force", "window"], 0);
    world.site.serves(&second());
}

#[test]
fn only_a_precondition_that_there_is_can_be_passed_over() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.precondition("battery", "exit 1");
    world.start_graph();
    let from = format!("{}:2.0.0", world.releases.layout.path.display());
    for which in [["--to", "2.0.0"], ["--from", &from]] {
        let words = ["agent", "update", which[0], which[1], "--force", "battery", "--force", "batery"];
        let done = world.ends(&words, 2);
        assert!(done.err.contains("no precondition \"batery\""), "{}", done.err);
        let names = "window, skew, free-space, rollback, appliance-space, storage-gate, battery";
        assert!(done.err.contains(names), "{}", done.err);
    }
    // Nobody was told to begin.
    let status = world.ends(&["agent", "check"], 0).out;
    assert!(world.attempts().is_empty() && !status.contains("waits for"), "{status}");
    world.ends(&["agent", "update", "--to", "2.0.0", "--force", "battery"], 0);
    world.site.serves(&second());
}

#[test]
fn a_step_that_is_too_long_waits_for_a_release_in_between() {
    let mut world = World::<Slot>::new();
    let third = Release::of(3).with_data(2);
    world.publish(&third);
    world.start_graph();
    world.automatic().start_agent();
    waits(&world, "waits for skew: 1.0.0 to 3.0.0 skips a major version (go by a release between them)");
    world.publish(&second());
    world.site.wait("the one between is on offer", || world.run(&["agent", "status"]).out.contains("2.0.0"));
    world.ends(&["agent", "update", "--to", "2.0.0"], 0);
    world.site.wait("the other follows by itself", || world.attempts().len() == 3);
    world.ends_as(&third, "completed");
    world.site.serves(&third);
}

/// More than any disk has.
const TOO_MUCH: &str = "automatic = true\nreserve = 1152921504606846976\n";

#[test]
fn room_is_waited_for_before_it_is_fetched_and_before_it_begins() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.start_graph();
    world.settings = TOO_MUCH.to_owned();
    world.start_agent();
    world.site.wait("it says so", || {
        let status = world.run(&["agent", "status"]).out;
        status.contains("1152921504606846976 that stay free") && status.contains("make room on the disk")
    });
    world.stop_agent();
    // There is room: all of it comes.
    world.settings = "automatic = true\n".to_owned();
    world.precondition("battery", "exit 1");
    world.start_agent();
    waits(&world, "waits for battery");
    world.stop_agent();
    // There is none any more.
    world.settings = TOO_MUCH.to_owned();
    world.precondition("battery", "exit 0");
    world.start_agent();
    waits(&world, "waits for appliance-space");
    let status = world.ends(&["agent", "status"], 0).out;
    let said = |name: &str, place: &str| {
        let line = status.lines().find(|line| line.starts_with(&format!("waits for {name}: "))).unwrap();
        assert!(line.contains(place) && line.ends_with("MiB are needed (make room there)"), "{line}");
    };
    said("free-space", world.state().to_str().unwrap());
    said("appliance-space", world.site.appliances().to_str().unwrap());
    world.stop_agent();
    assert!(world.attempts().is_empty(), "{:#}", world.books());
    world.settings = "automatic = true\n".to_owned();
    world.start_agent();
    world.ends_as(&second(), "completed");
    world.site.serves(&second());
}

#[test]
fn what_is_left_to_an_agent_needs_one() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.start_graph();
    let words = ["agent", "update", "--to", "2.0.0", "--no-wait"];
    let nobody = world.ends(&words, 3);
    assert!(nobody.err.contains("no agent runs") && nobody.err.contains("agent run"), "{nobody:?}");
    world.site.serves(&Release::of(1));
    // As it says: whoever comes takes it up.
    world.start_agent();
    world.ends_as(&second(), "completed");
    assert_eq!(world.attempts()[0]["by"], "person");
}
