//! A person's commands, killed on the way: the agent goes on with what was asked for, or the same words do.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::proof;
use testkit::trace::Call;

use super::traced::{Moment, is_kept, is_record};
use super::world::World;
use crate::upgrade::site::{Release, Slot};

fn second() -> Release {
    Release::of(2).with_data(2)
}

#[test]
fn a_step_back_whose_command_is_killed_is_made_once_and_counts() {
    let mut world = World::<Slot>::new();
    let digest = world.publish(&second());
    world.start_graph();
    let (wishes, books) = (world.state().join("wishes.json"), world.books_file());
    let (journal, history) = (world.site.appliance().join("journal"), world.site.appliance().join("history"));
    let asked = |call: &Call| is_kept(call, &wishes);
    let in_the_books = |call: &Call| {
        let text = std::fs::read_to_string(&books).unwrap_or_default();
        is_kept(call, &books) && text.contains("goingBack")
    };
    let begun = |call: &Call| is_record(call, &journal);
    let made = |call: &Call| is_record(call, &history);
    let points: [&(dyn Fn(&Call) -> bool + Sync); 4] = [&asked, &in_the_books, &begun, &made];
    for (number, point) in points.into_iter().enumerate() {
        world.site.put("bread", "two");
        world.ends(&["agent", "update", "--to", "2.0.0", "--anyway"], 0);
        world.site.put("bread", "three");
        world.killed_when(&["agent", "rollback"], point);
        world.start_agent();
        world.site.wait("it is answered", || {
            let wished: Value = serde_json::from_slice(&std::fs::read(&wishes).unwrap()).unwrap();
            world.books()["answered"]["request"] == wished["request"]["id"]
        });
        let books = world.books();
        assert_eq!(books["answered"]["refused"], Value::Null, "{number}: {books:#}\n{}", world.log());
        assert_eq!(books["rolledBack"], Value::from(vec![digest.clone()]), "{number}: {books:#}");
        assert_eq!(books["goingBack"], Value::Null, "{number}: {books:#}");
        world.site.serves(&Release::of(1));
        assert_eq!(world.site.note("bread").as_deref(), Some("two"), "{number}");
        world.kill_agent();
    }
    proof::count(proof::Kind::KillPoints, points.len());
}

/// The command is killed here and there, and typed again: one update comes of it.
fn typed_again(words: &[&str], world: &World<Slot>) {
    let journal = world.site.appliance().join("journal");
    let mut kills = 0;
    for moment in [Moment::Begun, Moment::Done] {
        for state in ["fetching", "holding", "applying"] {
            // From here on it is there, and only the books lack it.
            if (state, moment) != ("applying", Moment::Done) {
                world.killed_in(words, state, moment);
                kills += 1;
            }
        }
    }
    world.killed_when(words, |call| is_record(call, &journal));
    world.killed_in(words, "applying", Moment::Done);
    proof::count(proof::Kind::KillPoints, kills + 2);
    world.ends(words, 0);
    world.site.serves(&second());
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
    assert_eq!(world.attempts()[0]["outcome"], "completed");
    world.nothing_left();
}

#[test]
fn an_update_whose_command_is_killed_goes_on_when_it_is_typed_again() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.start_graph();
    typed_again(&["agent", "update", "--to", "2.0.0"], &world);
    assert_eq!(world.attempts()[0]["by"], "person");
}

#[test]
fn an_image_that_is_carried_in_goes_on_when_its_command_is_killed_and_typed_again() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    let from = format!("{}:2.0.0", world.releases.layout.path.display());
    typed_again(&["agent", "update", "--from", &from], &world);
    assert_eq!(world.attempts()[0]["by"], "offline");
}

#[test]
fn an_agent_ends_what_a_killed_command_has_begun() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.start_graph();
    world.killed_in(&["agent", "update", "--to", "2.0.0"], "applying", Moment::Begun);
    world.start_agent();
    let attempt = world.ends_as(&second(), "completed");
    assert_eq!(attempt["by"], "person");
    world.site.serves(&second());
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
}

/// A command that waits for the agent, and has said for what.
fn waiting(world: &World<Slot>) -> Child {
    world.until_the_agent_runs();
    let mut command = world.command(&["agent", "update", "--to", "2.0.0"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // Whoever writes to a stream that nobody reads would end.
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("waits for battery")), "{}", world.log());
    child
}

#[test]
fn whoever_waits_for_the_agent_may_go_and_come_back_and_so_may_the_agent() {
    let mut world = World::<Slot>::new();
    world.publish(&second());
    world.start_graph();
    world.precondition("battery", "echo it is low\nexit 1");
    world.start_agent();
    let mut first = waiting(&world);
    first.kill().unwrap();
    first.wait().unwrap();
    // The same words mean the same update.
    let mut another = waiting(&world);
    world.kill_agent();
    assert_eq!(another.wait().unwrap().code(), Some(11));
    world.start_agent();
    let mut last = waiting(&world);
    world.precondition("battery", "exit 0");
    assert_eq!(last.wait().unwrap().code(), Some(0), "{}", world.log());
    world.site.serves(&second());
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
}
