//! The ways of asking whether a release is ready.

use std::time::Duration;

use serde_json::{Value, json};
use upgrade::backend::{Backend, Error, Result};

use crate::contract::fixture::Fixture;
use crate::contract::slot::SlotFixture;

fn ready_by(probe: Value, timeout: Duration) -> Result<()> {
    let fixture = SlotFixture::new();
    let (image, brought) = fixture.bring_changed(2, |manifest| manifest["readiness"]["probe"] = probe);
    fixture.slot().stage_image(&image, &brought).unwrap();
    fixture.slot().reconfigure(&image).unwrap();
    fixture.slot().power_on().unwrap();
    fixture.slot().wait_ready(Some(timeout), &false.into())
}

const LONG: Duration = Duration::from_secs(60);
/// Long enough for a program to start and answer, also beside other work.
const SHORT: Duration = Duration::from_secs(5);

fn last_answer(result: Result<()>) -> String {
    match result {
        Err(Error::NotReady { last, .. }) => last,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_enough_for_tcp() {
    ready_by(json!({"tcp": {"address": "127.0.0.1:{config.port}"}}), LONG).unwrap();
    let last = last_answer(ready_by(json!({"tcp": {"address": "127.0.0.1:1"}}), SHORT));
    assert!(last.contains("refused"), "{last}");
}

#[test]
fn exit_code_0_is_what_a_command_must_end_with() {
    ready_by(json!({"command": {"command": ["/bin/sh", "-c", "test -d {data}"]}}), LONG).unwrap();
    let complaint = json!({"command": {"command": ["/bin/sh", "-c", "echo not today; exit 3"]}});
    let last = last_answer(ready_by(complaint, SHORT));
    assert!(last.contains("exit code 3") && last.contains("not today"), "{last}");
}

#[test]
fn the_last_answer_over_http_is_named() {
    let last =
        last_answer(ready_by(json!({"http": {"url": "http://127.0.0.1:{config.port}/nothing"}}), SHORT));
    assert!(last.contains("404"), "{last}");
    // A server without a certificate that anybody trusts, or none at all.
    last_answer(ready_by(
        json!({"http": {"url": "https://127.0.0.1:{config.port}/ready"}}),
        Duration::from_millis(200),
    ));
}

#[test]
fn a_word_that_stands_for_nothing_is_an_error_at_once() {
    let result = ready_by(json!({"tcp": {"address": "127.0.0.1:{config.porf}"}}), LONG);
    assert!(matches!(result, Err(Error::Release(_))), "{result:?}");
}

#[test]
fn somebody_else_who_answers_does_not_count() {
    // On the port of the appliance, before it: the program ends again and again, and the answer is another's.
    let fixture = SlotFixture::new();
    let listener = std::net::TcpListener::bind(("127.0.0.1", fixture.port())).unwrap();
    let (image, brought) = fixture.bring_changed(2, |manifest| {
        manifest["readiness"]["probe"] = json!({"tcp": {"address": "127.0.0.1:{config.port}"}});
        manifest["slot"]["command"] = json!(["/bin/sh", "-c", "exit 1"]);
    });
    fixture.slot().stage_image(&image, &brought).unwrap();
    fixture.slot().reconfigure(&image).unwrap();
    fixture.slot().power_on().unwrap();
    let waited = fixture.slot().wait_ready(Some(LONG), &false.into());
    assert!(matches!(waited, Err(Error::Ended { .. })), "{waited:?}");
    drop(listener);
}
