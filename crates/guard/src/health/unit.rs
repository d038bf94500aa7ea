//! Whether a systemd unit is active. What `systemctl show` answers is judged by a pure function.

use std::path::Path;

use super::attempt::Attempt;
use program::{Invocation, Limits, run_limited};

/// What `systemctl show` prints for the four properties is a few hundred bytes.
const MAX_OUTPUT: usize = 64 << 10;
const PROPERTIES: &str = "--property=LoadState,ActiveState,SubState,Result";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitState {
    Active,
    /// Known, and not active; in words.
    Inactive(String),
    /// The answer does not tell.
    Unknown(String),
}

/// `Name=value` lines, in any order. Active is what `systemctl is-active` calls so.
pub fn parse_unit(text: &str) -> UnitState {
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    match (value("LoadState"), value("ActiveState")) {
        (Some("not-found"), _) => UnitState::Inactive("there is no such unit".to_owned()),
        (Some("masked"), _) => UnitState::Inactive("the unit is masked".to_owned()),
        (_, Some("active" | "reloading" | "refreshing")) => UnitState::Active,
        (_, Some(active)) if !active.is_empty() => {
            let sub = value("SubState").filter(|sub| !sub.is_empty() && *sub != active);
            let result = value("Result").filter(|result| !result.is_empty() && *result != "success");
            let mut words = format!("the unit is {active}");
            for extra in [sub, result].into_iter().flatten() {
                words.push_str(", ");
                words.push_str(extra);
            }
            UnitState::Inactive(words)
        }
        _ => UnitState::Unknown("the answer of systemctl has no ActiveState".to_owned()),
    }
}

pub(crate) fn check(systemctl: &Path, unit: &str, limits: &Limits<'_>) -> Attempt {
    let what = Invocation::new(systemctl)
        .args(["show", "--no-pager", PROPERTIES, "--", unit])
        .env("LC_ALL", "C.UTF-8");
    let limits = Limits { max_output: MAX_OUTPUT, ..*limits };
    let done = match run_limited(&what, &limits) {
        Ok(done) => done,
        Err(error) => return Attempt::Unknown(super::scripts::with_source(&error)),
    };
    let text = String::from_utf8_lossy(&done.stdout);
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Attempt::Unknown(format!("systemctl failed with {}: {}", done.ending(), said.trim()));
    }
    match parse_unit(&text) {
        UnitState::Active => Attempt::Passed("active".to_owned()),
        UnitState::Inactive(words) => Attempt::Bad(words),
        UnitState::Unknown(words) => Attempt::Unknown(words),
    }
}
