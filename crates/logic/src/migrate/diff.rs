//! What a migration changed, key by key, for people and for a dry run. Secrets are never in it.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::secrets::Secrets;

/// Maps inside maps are told apart down to here; below, they are values like any other.
const MAX_DEPTH: usize = 32;
/// How much of a value is shown in a line of text.
const MAX_SHOWN: usize = 60;

/// A key at the top level, or the dotted path of one in a map: `network.ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyChange {
    pub key: String,
    #[serde(flatten)]
    pub change: Change,
}

/// The values are as they may be shown: without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Change {
    Added { after: Value },
    Removed { before: Value },
    Changed { before: Value, after: Value },
}

impl fmt::Display for KeyChange {
    /// `+ port = 8080`, `- host = "x"`, `~ size: 1 → 2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::Added { after } => write!(f, "+ {} = {}", self.key, Short(after)),
            Change::Removed { before } => write!(f, "- {} = {}", self.key, Short(before)),
            Change::Changed { before, after } if before == after => write!(f, "~ {}: changed", self.key),
            Change::Changed { before, after } => {
                write!(f, "~ {}: {} → {}", self.key, Short(before), Short(after))
            }
        }
    }
}

struct Short<'a>(&'a Value);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            Value::String(hidden) if hidden == super::secrets::HIDDEN => hidden.clone(),
            other => other.to_string(),
        };
        if text.chars().count() <= MAX_SHOWN {
            return f.write_str(&text);
        }
        let start: String = text.chars().take(MAX_SHOWN - 1).collect();
        write!(f, "{start}…")
    }
}

/// The keys that differ, in the order of their names. A secret that differs says `(secret)` on both sides.
pub fn diff(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<KeyChange> {
    let mut secrets = Secrets::of(before);
    secrets.learn(after);
    let mut changes = Vec::new();
    walk("", before, after, 1, &secrets, &mut changes);
    changes
}

fn walk(
    prefix: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    depth: usize,
    secrets: &Secrets,
    changes: &mut Vec<KeyChange>,
) {
    let shown = |value: &Value| secrets.without(value);
    // Maps are ordered by key, unless somebody builds serde_json otherwise: then this is ordered by what was there.
    for (key, old) in before {
        let full = joined(prefix, key);
        match after.get(key) {
            None => changes
                .push(KeyChange { key: secrets.hide(&full), change: Change::Removed { before: shown(old) } }),
            Some(new) if new == old => {}
            Some(new) => match (old, new) {
                (Value::Object(old), Value::Object(new))
                    if depth < MAX_DEPTH && !secret(old) && !secret(new) =>
                {
                    walk(&full, old, new, depth + 1, secrets, changes);
                }
                _ => {
                    let change = Change::Changed { before: shown(old), after: shown(new) };
                    changes.push(KeyChange { key: secrets.hide(&full), change });
                }
            },
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| !before.contains_key(*key)) {
        let key = secrets.hide(&joined(prefix, key));
        changes.push(KeyChange { key, change: Change::Added { after: shown(new) } });
    }
    if depth == 1 {
        changes.sort_by(|a, b| a.key.cmp(&b.key));
    }
}

fn secret(map: &Map<String, Value>) -> bool {
    map.contains_key(super::secrets::SECRET_KEY)
}

/// A key that has a dot in it is quoted, so that it can't be taken for a path.
fn joined(prefix: &str, key: &str) -> String {
    let plain = !key.is_empty() && !key.contains(['.', '"']) && !key.chars().any(char::is_control);
    let key = if plain { key.to_owned() } else { format!("{key:?}") };
    if prefix.is_empty() { key } else { format!("{prefix}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(before: Value, after: Value) -> Vec<String> {
        let [before, after] = [before, after].map(|value| value.as_object().unwrap().clone());
        diff(&before, &after).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_values_have_no_difference() {
        assert!(
            lines(json!({"a": {"b": [1, {"$secret": "x"}]}}), json!({"a": {"b": [1, {"$secret": "x"}]}}))
                .is_empty()
        );
    }

    #[test]
    fn keys_are_named_by_their_paths_and_in_order() {
        let before =
            json!({"port": 80, "net": {"mtu": 1500, "dns": ["a"]}, "gone": "x", "same": 1, "a.b": 1});
        let after = json!({"port": "80", "net": {"mtu": 9000, "dns": ["a", "b"], "v6": true}, "same": 1, "new": {}, "a.b": 2});
        assert_eq!(
            lines(before, after),
            [
                r#"~ "a.b": 1 → 2"#,
                r#"- gone = "x""#,
                r#"~ net.dns: ["a"] → ["a","b"]"#,
                "~ net.mtu: 1500 → 9000",
                "+ net.v6 = true",
                "+ new = {}",
                r#"~ port: 80 → "80""#,
            ]
        );
    }

    #[test]
    fn secrets_are_named_and_never_shown_even_when_a_migration_unwraps_them() {
        let before = json!({"password": {"$secret": "hunter2!"}, "token": {"$secret": "abcdefgh"}, "old": {"$secret": "zzzzz"}});
        let after = json!({
            "password": {"$secret": "hunter3!"},
            "url": "https://me:abcdefgh@host",
            "token": "abcdefgh",
            "list": [{"$secret": "inlist"}],
            "hunter3!": 1
        });
        let shown = lines(before, after);
        assert_eq!(
            shown,
            [
                "+ (secret) = 1",
                r#"+ list = ["(secret)"]"#,
                "- old = (secret)",
                "~ password: changed",
                "~ token: changed",
                r#"+ url = "https://me:(secret)@host""#,
            ]
        );
    }

    #[test]
    fn a_change_is_told_to_programs_too() {
        let before = json!({"a": 1}).as_object().unwrap().clone();
        let after = json!({"a": 2}).as_object().unwrap().clone();
        let told = serde_json::to_value(diff(&before, &after)).unwrap();
        assert_eq!(told, json!([{"key": "a", "change": "changed", "before": 1, "after": 2}]));
    }
}
