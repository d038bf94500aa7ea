//! What people ask of an agent, and what it tells them.

use serde_json::{Value, json};

use super::world::{World, version};
use crate::upgrade::site::{Release, Slot};

#[test]
fn asking_the_graph_gives_nothing_up_and_calling_off_does() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2);
    world.publish(&second);
    world.start_graph();
    world.start_agent();
    world.until_the_agent_runs();
    world.ends(&["agent", "pause"], 0);
    world.ends(&["agent", "update", "--to", "v2.0.0", "--no-wait"], 0);
    world.site.wait("it is held", || world.agent_state() == "holding");
    let shown = world.ends(&["agent", "check"], 0).out;
    assert!(shown.contains("holding, to 2.0.0") && shown.contains("waits for paused"), "{shown}");
    assert_eq!(world.agent_state(), "holding");
    // The same wish once more is no other one.
    world.ends(&["agent", "update", "--to", "2.0.0", "--no-wait"], 0);
    world.ends(&["agent", "check"], 0);
    assert!(world.attempts().is_empty(), "{:#}", world.books());

    // Nor is it given up, or waited for, by a question where no agent runs.
    world.kill_agent();
    world.ends(&["agent", "check"], 0);
    assert_eq!(world.books()["agent"]["target"]["version"], "2.0.0", "{:#}", world.books());
    world.start_agent();
    world.until_the_agent_runs();

    world.ends(&["agent", "update", "--clear"], 0);
    let attempt = world.ends_as(&second, "abandoned");
    assert_eq!(attempt["why"], "it was called off");
    world.nothing_left();
    world.site.serves(&Release::of(1));
    let paused = world.ends(&["agent", "update", "--to", "2.0.0", "--force", "paused"], 2);
    assert!(paused.err.contains("holdfast agent resume"), "{}", paused.err);
}

#[test]
fn a_step_back_is_told_kept_and_shown_also_where_no_agent_runs() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    world.ends(&["agent", "update", "--to", &version(&second)], 0);
    let running = || {
        let shown = world.ends(&["agent", "status"], 0).out;
        shown.lines().find_map(|line| line.strip_prefix("running ")).map(str::trim).map(str::to_owned)
    };
    assert_eq!(running(), Some("2.0.0".to_owned()));
    let again = world.ends(&["agent", "update", "--to", "2.0.0"], 4);
    assert!(again.err.contains("2.0.0 runs already"), "{}", again.err);
    let done = world.ends(&["agent", "rollback"], 0);
    assert!(done.err.contains("taken back from 2.0.0 to 1.0.0"), "{}", done.err);
    assert_eq!(running(), Some("1.0.0".to_owned()));
    let history = world.ends(&["agent", "history"], 0).out;
    let newest: Vec<&str> = history.lines().nth(1).unwrap().split_whitespace().skip(1).collect();
    assert_eq!(newest, ["2.0.0", "1.0.0", "taken", "back"], "{history}");
    // By other hands.
    world.ends(&["agent", "update", "--to", "2.0.0", "--anyway"], 0);
    world.site.ok(&["upgrade", "shop", "--rollback"]);
    assert_eq!(running(), Some("1.0.0".to_owned()));
}

#[test]
fn what_can_not_be_done_is_said_to_whoever_asks_for_it() {
    let mut world = World::<Slot>::new();
    world.start_graph();
    // Nobody answers: that may pass. A channel that nobody has does not.
    let away = world.ends(&["agent", "set", "--upstream", "http://127.0.0.1:9"], 0);
    assert_eq!(away.code, 0);
    let done = world.ends(&["agent", "check"], 75);
    assert!(
        done.err.contains("127.0.0.1:9") && done.err.contains("see that the graph service runs"),
        "{done:?}"
    );
    let upstream = world.upstream();
    world.ends(&["agent", "set", "--upstream", &upstream, "--channel", "fast"], 0);
    let done = world.ends(&["agent", "check"], 4);
    assert!(done.err.contains("\"fast\"") && done.err.contains("agent set --channel"), "{done:?}");

    world.start_agent();
    world.until_the_agent_runs();
    world.ends(&["appliance", "rm", "shop", "--force"], 0);
    let done = world.run(&["agent", "check"]);
    assert!(done.code != 0 && done.err.contains("there is no appliance shop"), "{done:?}");
}

#[test]
fn an_update_of_what_is_switched_off_claims_no_proof() {
    let mut world = World::<Slot>::new();
    // Nothing would show that it never becomes ready.
    let second = Release::of(2).with_data(2).never_ready();
    world.publish(&second);
    world.start_graph();
    world.ends(&["appliance", "stop", "shop"], 0);
    let done = world.ends(&["agent", "update", "--to", "2.0.0"], 0);
    let why = "it was switched off, and not started: whether it becomes ready is not known";
    assert!(done.err.contains(&format!("updated from 1.0.0 to 2.0.0; {why}")), "{}", done.err);
    let status: Value = serde_json::from_str(&world.ends(&["agent", "status", "-o", "json"], 0).out).unwrap();
    assert_eq!((&status["last"]["outcome"], &status["last"]["why"]), (&json!("unproven"), &json!(why)));
    let history = world.ends(&["agent", "history"], 0).out;
    let newest = history.lines().nth(1).unwrap();
    assert!(newest.contains("unproven") && newest.ends_with(why), "{history}");
    // The appliance itself remembers it, too, for an agent that was killed before it could write it down.
    assert_eq!(world.site.inspect()["history"][0]["unproven"], json!(true));
    let mut books = world.books();
    let (attempt, begun) = (books["history"][0].clone(), json!({"state": "applying"}));
    books["agent"] = begun;
    books["agent"]["target"] = json!({"version": "2.0.0", "image": attempt["image"], "by": "person"});
    books["agent"]["from"] = json!("1.0.0");
    books["agent"]["since"] = json!(0);
    books["history"] = json!([]);
    std::fs::write(world.books_file(), books.to_string()).unwrap();
    world.ends(&["agent", "check"], 0);
    assert_eq!(world.attempts()[0]["outcome"], "unproven", "{:#}", world.books());
}

#[test]
fn every_change_that_a_person_makes_can_be_read_by_a_program() {
    let mut world = World::<Slot>::new();
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    let ask = |words: &[&str]| -> Value {
        let done = world.ends(&[words, &["-o", "json"]].concat(), 0);
        let said: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"));
        assert_eq!(said["apiVersion"], "holdfast/v1", "{said:#}");
        said
    };
    let paused = ask(&["agent", "pause", "the", "fair"]);
    assert_eq!((&paused["kind"], &paused["paused"]), (&json!("AgentSettings"), &json!("the fair")));
    let resumed = ask(&["agent", "resume"]);
    assert_eq!((&resumed["kind"], &resumed["paused"]), (&json!("AgentSettings"), &Value::Null));
    let set = ask(&["agent", "set", "--automatic", "false"]);
    assert_eq!((&set["automatic"], &set["set"]), (&json!(false), &json!(["automatic"])));
    let updated = ask(&["agent", "update", "--to", "2.0.0"]);
    assert_eq!((&updated["kind"], &updated["outcome"]), (&json!("AgentRequest"), &json!("completed")));
    assert_eq!((&updated["from"], &updated["to"]), (&json!("1.0.0"), &json!("2.0.0")));
    let back = ask(&["agent", "rollback"]);
    assert_eq!((&back["kind"], &back["outcome"]), (&json!("AgentRequest"), &json!("taken-back")));
    assert_eq!((&back["from"], &back["to"]), (&json!("2.0.0"), &json!("1.0.0")));
    // What fails is told by its exit code, and prints no document.
    let again = world.ends(&["agent", "rollback", "-o", "json"], 4);
    // The log comes before it: no agent runs, so the command does the work itself.
    assert!(again.out.is_empty() && again.err.lines().any(|line| line.starts_with("error: ")), "{again:?}");
    // For people it stays a line.
    let done = world.ends(&["agent", "pause"], 0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", "updates are paused\n"));
}

#[test]
fn what_was_set_can_be_taken_back() {
    let world = World::<Slot>::new();
    let status =
        || -> Value { serde_json::from_str(&world.ends(&["agent", "status", "-o", "json"], 0).out).unwrap() };
    world.ends(&["agent", "set", "--channel", "fast", "--upstream", "http://127.0.0.1:9", "--automatic"], 0);
    let set = status();
    assert_eq!((&set["channel"], &set["automatic"]), (&json!("fast"), &json!(true)));
    let done = world.ends(&["agent", "unset", "channel", "automatic", "-o", "json"], 0);
    let left: Value = serde_json::from_str(&done.out).unwrap();
    // The configuration holds again, and what was not named stays as it was set.
    assert_eq!((&left["channel"], &left["automatic"]), (&json!("stable"), &json!(false)));
    assert_eq!(left["set"], json!(["upstream"]));
    assert_eq!(status()["upstream"], "http://127.0.0.1:9");
    world.ends(&["agent", "unset", "upstream"], 0);
    assert_eq!(status()["upstream"], json!(world.upstream()));
    world.ends(&["agent", "unset"], 2);
    world.ends(&["agent", "unset", "period"], 2);
}
