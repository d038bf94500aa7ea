//! `kill -9`, in every state of the books: the next agent comes to the right end by itself.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::proof;

use super::traced::{Moment, is_kept, is_record};
use super::world::{Published, World, history};
use crate::upgrade::site::{Release, Slot};

const STATES: [&str; 7] =
    ["looking", "fetching", "checking", "holding", "replacing-itself", "applying", "clearing"];

fn followed(release: &Release) -> World<Slot> {
    let mut world = World::<Slot>::new();
    world.site.put("bread", "two");
    world.publish(release);
    world.automatic();
    world.start_graph();
    world
}

/// The next agent has brought it to its end, once.
fn came_to_its_end(world: &mut World<Slot>, release: &Release) {
    world.start_agent();
    let broken = release.never_ready;
    world.ends_as(release, if broken { "rolled-back" } else { "completed" });
    let runs = if broken { Release::of(1) } else { release.clone() };
    world.site.serves(&runs);
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    world.nothing_left();
    assert_eq!(world.attempts().len(), 1, "{:#}", world.books());
}

/// In each state twice: when nothing is done of it yet, and when all of it is done and not in the books.
fn killed_in_every_state(release: &Release) {
    let mut world = followed(release);
    let mut killed_in = BTreeSet::new();
    for state in STATES {
        for moment in [Moment::Begun, Moment::Done] {
            world.killed_in(&["agent", "run"], state, moment);
            killed_in.insert(world.agent_state());
        }
    }
    proof::count(proof::Kind::KillPoints, 2 * STATES.len());
    assert_eq!(killed_in, STATES.map(str::to_owned).into());
    came_to_its_end(&mut world, release);
}

#[test]
fn an_agent_killed_in_every_state_comes_to_the_right_end() {
    killed_in_every_state(&Release::of(2).with_data(2));
}

#[test]
fn an_agent_killed_in_every_state_comes_back_from_a_broken_release() {
    killed_in_every_state(&Release::of(2).with_data(2).never_ready());
}

#[test]
fn an_agent_killed_at_the_records_of_its_transaction_goes_on_with_it() {
    let release = Release::of(2).with_data(2);
    let mut world = followed(&release);
    let mut kills = 0;
    // Each one gets further by a record more than the one before it.
    while world.attempts().is_empty() {
        let mut records = 0;
        let (journal, books) = (world.site.appliance().join("journal"), world.books_file());
        world.killed_when(&["agent", "run"], move |call| {
            records += usize::from(is_record(call, &journal));
            records > kills || is_kept(call, &books) && !history(&books).is_empty()
        });
        kills += 1;
    }
    println!("killed {kills} times on the way");
    proof::count(proof::Kind::KillPoints, kills);
    assert!(kills > 3, "only {kills} kills");
    came_to_its_end(&mut world, &release);
}

#[test]
fn what_was_begun_is_ended_although_the_release_trusts_others_than_who_signed_it() {
    let mut world = World::<Slot>::new();
    let directory = world.site.root.join("new");
    std::fs::create_dir_all(&directory).unwrap();
    let next = testkit::releases::CosignKey::new(&directory, "p256");
    let second = Release::of(2).never_ready();
    let keys = Some(std::fs::read(next.public_file()).unwrap());
    world.publish_as(&second, &Published { keys, ..Published::rightly(&second) });
    world.automatic();
    world.start_graph();
    world.start_agent();
    // From here on the keys in force are those of the new release.
    world.site.wait("it waits for the new one", || world.log().contains("prove-ready"));
    world.kill_agent();
    world.start_agent();
    world.ends_as(&second, "rolled-back");
    world.site.serves(&Release::of(1));
    world.nothing_left();
}

#[test]
fn a_step_back_counts_also_where_the_agent_was_killed_after_it() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    let digest = world.publish(&second);
    world.start_graph();
    world.ends(&["agent", "update", "--to", "2.0.0"], 0);
    // As it is found when the machine was taken back, and nobody was left to write it down.
    let mut books = world.books();
    books["goingBack"] = json!({"request": "back", "from": "2.0.0", "digest": digest});
    std::fs::write(world.state().join("books.json"), books.to_string()).unwrap();
    let wishes = json!({"request": {"id": "back", "what": "roll-back"}});
    std::fs::write(world.state().join("wishes.json"), wishes.to_string()).unwrap();
    world.site.ok(&["upgrade", "shop", "--rollback"]);
    world.automatic().start_agent();
    world.site.wait("it is answered", || world.books()["answered"]["request"] == "back");
    let books = world.books();
    assert_eq!(books["answered"]["refused"], Value::Null, "{books:#}");
    assert_eq!(books["rolledBack"], json!([digest]), "{books:#}");
    world.ends(&["agent", "check"], 0);
    world.site.serves(&Release::of(1));
    let taken = world.attempts().iter().filter(|attempt| attempt["to"] == "2.0.0").count();
    assert_eq!(taken, 1, "{:#}", world.books());
}

#[test]
fn somebody_elses_interrupted_upgrade_is_left_alone() {
    let mut world = World::<Slot>::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2));
    let by_hand = world.site.release(&third);
    world.site.killed_at(&["upgrade", "shop", "--release", &by_hand], "migrate");
    world.publish(&second);
    world.start_graph();
    world.automatic().start_agent();
    world.site.wait("it says what is in the way", || {
        world.run(&["agent", "status"]).out.contains("an upgrade of shop was interrupted")
    });
    world.site.state_is("interrupted");
    world.site.ok(&["upgrade", "shop", "--rollback"]);
    world.ends_as(&second, "completed");
    world.site.serves(&second);
}

#[test]
fn an_update_that_is_under_way_needs_no_graph_service() {
    let release = Release::of(2).with_data(2);
    let mut world = followed(&release);
    world.precondition("battery", "exit 1");
    world.start_agent();
    world.site.wait("it holds", || world.run(&["agent", "status"]).out.contains("waits for battery"));
    world.kill_graph();
    world
        .site
        .wait("its silence is told", || world.run(&["agent", "status"]).out.contains("does not answer"));
    world.precondition("battery", "exit 0");
    world.ends_as(&release, "completed");
    world.site.serves(&release);
}

#[test]
fn a_graph_service_that_dies_is_waited_for() {
    let mut world = World::<Slot>::new();
    world.automatic();
    world.start_graph();
    world.start_agent();
    world.site.wait("the graph was asked", || world.state().join("news.json").exists());
    world.kill_graph();
    let second = Release::of(2);
    world.publish(&second);
    world
        .site
        .wait("its silence is told", || world.run(&["agent", "status"]).out.contains("does not answer"));
    world.start_graph();
    world.ends_as(&second, "completed");
    world.site.serves(&second);
}
