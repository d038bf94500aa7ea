//! A release that brings its own agent: that one takes over before anything else of the release is applied.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::trace::Call;

use super::traced::{is_kept, is_record};
use super::world::{Published, World};
use crate::upgrade::site::{Release, Slot};

const INSTALLED: &str = env!("CARGO_BIN_EXE_holdfast");

/// The same program, and another file: without what debuggers need, which makes it small, too.
fn another(world: &World<Slot>) -> Vec<u8> {
    let stripped = world.site.root.join("stripped");
    let done = Command::new("strip").arg("-o").arg(&stripped).arg(INSTALLED).status().unwrap();
    assert!(done.success());
    fs::read(&stripped).unwrap()
}

fn program(world: &World<Slot>) -> PathBuf {
    fs::read_link(format!("/proc/{}/exe", world.agent_pid().as_raw_nonzero())).unwrap()
}

/// How many transactions of the appliance have ended.
fn history(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

/// Of what releases have brought, nothing is left; by then it hears signals, too.
fn until_it_is_swept(world: &World<Slot>) {
    world.site.wait("it is swept", || {
        let left = fs::read_dir(world.state().join("bin")).unwrap().flatten();
        !left.into_iter().any(|entry| entry.file_name().as_encoded_bytes().starts_with(b"holdfast-"))
    });
}

/// Until the agent runs a program of this directory and holds its lock. A command of a person that comes earlier takes the
/// lock itself, and the agent ends with an error.
fn until_it_runs(world: &World<Slot>, directory: &str) {
    let begin = Instant::now();
    let lock = world.state().join("agent.lock");
    let pid = world.agent_pid().as_raw_nonzero().get().cast_unsigned();
    // The record is read and the lock left alone: whoever probes a lock holds it for an instant.
    let holds = || disk::Lock::holder(&lock).unwrap().is_some_and(|holder| holder.pid == pid);
    while !(program(world).starts_with(directory) && holds()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{}\n{}", program(world).display(), world.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_agent_of_a_release_takes_over_first_and_goes_with_it() {
    let mut world = World::<Slot>::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2).never_ready());
    world.site.put("bread", "two");
    let published = Published { agent: Some(another(&world)), ..Published::rightly(&second) };
    world.publish_as(&second, &published);
    world.start_graph();
    world.automatic().start_agent();
    let pid = world.agent_pid();
    world.ends_as(&second, "completed");
    world.site.serves(&second);
    assert_eq!(world.agent_pid(), pid, "who watches it sees one process");
    let brought = world.state().join("bin");
    let brought = brought.to_str().unwrap();
    until_it_runs(&world, brought);

    // The next one brings none, and fails: the agent is still that of the second.
    world.publish(&third);
    world.ends_as(&third, "rolled-back");
    world.stop_agent();
    world.start_agent();
    until_it_runs(&world, brought);

    // With the second goes its agent.
    world.ends(&["agent", "rollback"], 0);
    world.site.serves(&Release::of(1));
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    world.stop_agent();
    world.start_agent();
    until_it_runs(&world, INSTALLED);
    until_it_is_swept(&world);
    world.stop_agent();
}

#[test]
fn an_agent_that_does_not_run_is_not_taken_nor_is_its_release() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2);
    let broken = b"#!/bin/sh\nexit 1\n".to_vec();
    world.publish_as(&second, &Published { agent: Some(broken), ..Published::rightly(&second) });
    world.start_graph();
    world.automatic().start_agent();
    let attempt = world.ends_as(&second, "refused");
    assert!(attempt["why"].to_string().contains("the agent of the release can't be run"), "{attempt:#}");
    assert!(program(&world).starts_with(INSTALLED));
    world.site.serves(&Release::of(1));
    world.stop_agent();
}

#[test]
fn an_agent_that_never_comes_up_is_tried_three_times_and_its_release_is_refused() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2);
    let mute = b"#!/bin/sh\n[ \"$1\" = version ]\n".to_vec();
    world.publish_as(&second, &Published { agent: Some(mute), ..Published::rightly(&second) });
    world.start_graph();
    world.automatic();
    // Whoever watches over services starts it again.
    for _ in 0..4 {
        world.start_agent();
        let is_over = |world: &World<Slot>| world.agent_state() == "looking" && !world.attempts().is_empty();
        if !world.ends_by_itself_or(is_over) {
            break;
        }
    }
    let attempt = world.ends_as(&second, "refused");
    assert!(attempt["why"].to_string().contains("did not come up"), "{attempt:#}");
    assert!(program(&world).starts_with(INSTALLED));
    world.site.serves(&Release::of(1));
    world.stop_agent();
}

#[test]
fn the_agent_of_a_release_that_did_not_stay_goes_with_it() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).never_ready();
    let published = Published { agent: Some(another(&world)), ..Published::rightly(&second) };
    world.publish_as(&second, &published);
    world.start_graph();
    world.automatic().start_agent();
    // Killed as soon as the end is in the appliance's books: in those of the agent it is not yet, or only just.
    let undone = world.site.appliance().join("history");
    world.site.wait("it is undone", || history(&undone) > 0);
    world.kill_agent();
    world.start_agent();
    world.ends_as(&second, "rolled-back");
    world.stop_agent();
    world.start_agent();
    until_it_runs(&world, INSTALLED);
    until_it_is_swept(&world);
    world.stop_agent();
}

#[test]
fn an_agent_killed_in_its_own_exchange_is_followed_by_one_that_goes_on() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    let published = Published { agent: Some(another(&world)), ..Published::rightly(&second) };
    world.publish_as(&second, &published);
    world.start_graph();
    world.automatic();
    let bin = world.state().join("bin");
    let installed = |call: &Call| call.name.starts_with("rename") && call.what.contains(".part -> ");
    let named = |call: &Call| is_record(call, &bin.join("brought-by"));
    let switched = |call: &Call| is_kept(call, &bin.join("current"));
    let tried = |call: &Call| is_record(call, &bin.join("trials"));
    let books = world.books_file();
    let took_over = |call: &Call| call.program.starts_with("holdfast-") && is_kept(call, &books);
    let points: [&(dyn Fn(&Call) -> bool + Sync); 5] = [&installed, &named, &switched, &tried, &took_over];
    for point in points {
        world.killed_when(&["agent", "run"], point);
        world.site.serves(&Release::of(1));
    }
    testkit::proof::count(testkit::proof::Kind::KillPoints, points.len());
    world.start_agent();
    world.ends_as(&second, "completed");
    world.site.serves(&second);
    until_it_runs(&world, bin.to_str().unwrap());
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
    world.nothing_left();
    world.stop_agent();
    // Of the exchange nothing is left but the one program.
    let left: Vec<_> = fs::read_dir(&bin).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "beside current and brought-by: {left:?}");
}

#[test]
fn a_person_is_served_by_the_agent_of_the_release_also_where_no_agent_runs() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    let published = Published { agent: Some(another(&world)), ..Published::rightly(&second) };
    world.publish_as(&second, &published);
    world.start_graph();
    world.ends(&["agent", "update", "--to", "2.0.0"], 0);
    world.site.serves(&second);
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
    assert_eq!(world.attempts()[0]["outcome"], "completed");
    assert!(world.state().join("bin/current").exists());
    // Carried in, too.
    let third = Release::of(3).with_data(2);
    let published = Published { agent: Some(fs::read(INSTALLED).unwrap()), ..Published::rightly(&third) };
    world.publish_as(&third, &published);
    let from = format!("{}:3.0.0", world.releases.layout.path.display());
    world.ends(&["agent", "update", "--from", &from], 0);
    world.site.serves(&third);
    assert_eq!(world.attempts().len(), 2, "{:#}", world.books());
}
