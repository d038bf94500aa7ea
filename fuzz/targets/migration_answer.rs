//! What executables of a release answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logic::migrate::{Change, Secrets, diff, is_secret};
use serde_json::Map;

fuzz_target!(|bytes: &[u8]| {
    let Ok(output) = migrate::parse_answer(bytes) else { return };
    assert!(output.notes.iter().chain(&output.unavailable).all(|line| !line.chars().any(char::is_control)));
    assert!(diff(&output.values, &output.values).is_empty());
    let secrets = Secrets::of(&output.values);
    for change in diff(&Map::new(), &output.values) {
        // One line each, and nothing in it that has the form of a secret.
        assert!(!change.to_string().contains('\n'));
        let Change::Added { after } = &change.change else { panic!("nothing was there before") };
        assert!(!is_secret(after));
        let _ = secrets.hide(&change.key);
    }
});
