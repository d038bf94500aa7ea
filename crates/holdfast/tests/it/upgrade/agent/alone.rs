//! Without a service: a person's commands, an image that was carried in, one step back.

use serde_json::Value;

use super::world::{Published, World, version};
use crate::upgrade::site::{Release, Slot};

#[test]
fn a_person_asks_chooses_and_goes_back() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    world.site.put("bread", "two");
    let seen = world.ends(&["agent", "check", "-o", "json"], 0);
    let seen: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!(seen["available"][0]["version"], Value::from("2.0.0"), "{seen:#}");
    // There is nothing but what is offered.
    let refused = world.ends(&["agent", "update", "--to", "5.0.0"], 4);
    assert!(refused.err.contains("it offers 2.0.0"), "{refused:?}");
    world.ends(&["agent", "update", "--to", &version(&second)], 0);
    world.site.serves(&second);
    world.site.put("bread", "three");
    world.ends(&["agent", "rollback"], 0);
    world.site.serves(&Release::of(1));
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    // What was left is taken again only when somebody insists.
    let refused = world.ends(&["agent", "update", "--to", "2.0.0"], 4);
    assert!(refused.err.contains("--anyway"), "{refused:?}");
    world.ends(&["agent", "update", "--to", "2.0.0", "--anyway"], 0);
    world.site.serves(&second);
    let history = world.ends(&["agent", "history"], 0);
    assert_eq!(history.out.matches("completed").count(), 2, "{}", history.out);
}

#[test]
fn what_came_by_other_hands_is_not_taken_again_either() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    world.site.upgrade(&second);
    world.ends(&["agent", "rollback"], 0);
    world.site.serves(&Release::of(1));
    let refused = world.ends(&["agent", "update", "--to", "2.0.0"], 4);
    assert!(refused.err.contains("--anyway"), "{refused:?}");
    world.ends(&["agent", "update", "--to", "2.0.0", "--anyway"], 0);
    world.site.serves(&second);
}

#[test]
fn a_release_that_names_its_architecture_is_followed_by_the_next() {
    let mut world = World::<Slot>::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2));
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let claims = format!("2.0.0+{architecture}");
    world.publish_as(&second, &Published { claims, ..Published::rightly(&second) });
    world.start_graph();
    world.ends(&["agent", "update", "--to", "2.0.0"], 0);
    world.site.serves(&second);
    world.publish(&third);
    world.site.wait("the third is on offer", || {
        let seen = world.run(&["agent", "check"]);
        seen.out.contains("3.0.0")
    });
    world.ends(&["agent", "update", "--to", "3.0.0"], 0);
    world.site.serves(&third);
}

#[test]
fn an_image_is_carried_in_and_checked_like_any_other() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    // No graph is served: nobody is asked.
    let layout = world.releases.layout.path.display().to_string();
    let from = format!("{layout}:2.0.0");
    world.ends(&["agent", "update", "--from", &from], 0);
    world.site.serves(&second);
    assert_eq!(world.attempts()[0]["by"], Value::from("offline"));
    let unsigned = Release::of(3).with_data(2);
    let published = Published { signed: false, ..Published::rightly(&unsigned) };
    world.publish_as(&unsigned, &published);
    let refused = world.ends(&["agent", "update", "--from", &format!("{layout}:3.0.0")], 4);
    assert!(refused.err.contains("sign"), "{refused:?}");
    world.nothing_left();
    world.site.serves(&second);
}

#[test]
fn settings_are_changed_while_it_runs() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    world.settings.push_str("upstream = \"http://127.0.0.1:9\"\n");
    world.start_agent();
    let upstream = world.upstream();
    world.ends(&["agent", "set", "--upstream", &upstream, "--channel", "stable", "--automatic"], 0);
    world.ends_as(&second, "completed");
    let other = world.run(&["agent", "run"]);
    assert_eq!(other.code, 75, "{other:?}");
}
