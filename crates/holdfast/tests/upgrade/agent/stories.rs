//! The main job: release 2 is found, checked and moved to with the data; release 3 is broken and rolled back by itself.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::world::World;
use crate::site::{Kind, Release, Slot};
use crate::vm::Vm;

fn there_and_back<K: Kind>(world: &mut World<K>) {
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2).never_ready());
    world.site.put("bread", "two");
    world.publish(&second);
    world.start_graph();
    world.automatic().start_agent();
    let attempt = world.ends_as(&second, "completed");
    assert_eq!((&attempt["from"], &attempt["by"]), (&Value::from("1.0.0"), &Value::from("automatic")));
    world.site.serves(&second);
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    assert_eq!(world.site.inspect()["configuration"]["title2"], Value::from("Shopping"));
    world.site.put("milk", "one");
    world.publish(&third);
    world.ends_as(&third, "rolled-back");
    world.site.serves(&second);
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    assert_eq!(world.site.note("milk").as_deref(), Some("one"));
    world.nothing_left();
    // Never again by itself.
    world.ends(&["agent", "check"], 0);
    let status = world.ends(&["agent", "status", "-o", "json"], 0);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["available"][0]["standing"], Value::from("rolled-back"), "{status:#}");
    assert_eq!(world.attempts().len(), 2, "{:#}", world.books());
    world.stop_agent();
    world.site.serves(&second);
}

#[test]
fn a_process_follows_its_releases_and_comes_back_from_a_broken_one() {
    there_and_back(&mut World::<Slot>::new());
}

#[test]
fn a_virtual_machine_follows_its_releases_and_comes_back_from_a_broken_one() {
    let mut world = World::<Vm>::new();
    there_and_back(&mut world);
}

#[test]
fn releases_come_from_a_real_registry() {
    there_and_back(&mut World::<Slot>::new().with_registry());
}

#[test]
fn the_story_that_newcomers_are_told_is_true() {
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notes/story");
    let told = Command::new(story)
        .arg("--once")
        .env("HOLDFAST", env!("CARGO_BIN_EXE_holdfast"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{out}\n{err}");
    println!("{out}");
}
