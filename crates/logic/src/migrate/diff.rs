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
    diff_knowing(&mut Secrets::of(before), before, after)
}

/// As [`diff`], for who walks a path: `secrets` are those of `before`, and learn what is new in `after`. What did not
/// change is looked at once.
pub fn diff_knowing(
    secrets: &mut Secrets,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) -> Vec<KeyChange> {
    let mut found = Vec::new();
    walk("", before, after, 1, &mut found);
    found.iter().filter_map(|(_, difference)| difference.after()).for_each(|value| secrets.learn_from(value));
    let mut changes: Vec<KeyChange> = found
        .into_iter()
        .map(|(key, difference)| KeyChange { key: secrets.hide(&key), change: difference.shown(secrets) })
        .collect();
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    changes
}

/// A change as it is, before it is made fit to be shown.
enum Difference<'a> {
    Added(&'a Value),
    Removed(&'a Value),
    Changed(&'a Value, &'a Value),
}

impl<'a> Difference<'a> {
    fn after(&self) -> Option<&'a Value> {
        match self {
            Self::Added(after) | Self::Changed(_, after) => Some(after),
            Self::Removed(_) => None,
        }
    }

    fn shown(&self, secrets: &Secrets) -> Change {
        let shown = |value: &Value| secrets.without(value);
        match self {
            Self::Added(after) => Change::Added { after: shown(after) },
            Self::Removed(before) => Change::Removed { before: shown(before) },
            Self::Changed(before, after) => Change::Changed { before: shown(before), after: shown(after) },
        }
    }
}

type Found<'a> = Vec<(String, Difference<'a>)>;

/// Both maps are in one order, as a rule that of their keys: then they are walked side by side, and only where a key is
/// missing on one side is anything looked up. Where the order differs after all, everything is.
fn walk<'a>(
    prefix: &str,
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
    depth: usize,
    found: &mut Found<'a>,
) {
    let start = found.len();
    let (mut olds, mut news) = (before.iter().peekable(), after.iter().peekable());
    loop {
        match (olds.peek(), news.peek()) {
            (Some((key, old)), Some((other, new))) if key == other => {
                compare(prefix, key, old, new, depth, found);
                olds.next();
                news.next();
            }
            (Some((key, old)), _) if !after.contains_key(*key) => {
                found.push((joined(prefix, key), Difference::Removed(old)));
                olds.next();
            }
            (_, Some((key, new))) if !before.contains_key(*key) => {
                found.push((joined(prefix, key), Difference::Added(new)));
                news.next();
            }
            (None, None) => return,
            _ => break,
        }
    }
    found.truncate(start);
    for (key, old) in before {
        match after.get(key) {
            Some(new) => compare(prefix, key, old, new, depth, found),
            None => found.push((joined(prefix, key), Difference::Removed(old))),
        }
    }
    let added = after.iter().filter(|(key, _)| !before.contains_key(*key));
    found.extend(added.map(|(key, new)| (joined(prefix, key), Difference::Added(new))));
}

fn compare<'a>(prefix: &str, key: &str, old: &'a Value, new: &'a Value, depth: usize, found: &mut Found<'a>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(old), Value::Object(new)) if depth < MAX_DEPTH && !secret(old) && !secret(new) => {
            walk(&joined(prefix, key), old, new, depth + 1, found);
        }
        _ => found.push((joined(prefix, key), Difference::Changed(old, new))),
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

    /// Every pair of maps over four keys with two values each, against the plainest way to compare them.
    #[test]
    fn every_small_pair_of_maps_is_told_apart_rightly() {
        let maps: Vec<Map<String, Value>> = (0..81)
            .map(|number: u32| {
                let digit = |at: u32| number / 3_u32.pow(at) % 3;
                (0..4).filter(|at| digit(*at) > 0).map(|at| (format!("k{at}"), json!(digit(at)))).collect()
            })
            .collect();
        for before in &maps {
            for after in &maps {
                let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
                let plainly = keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).cloned();
                let changes = diff(before, after);
                assert_eq!(
                    changes.iter().map(|it| it.key.clone()).collect::<Vec<_>>(),
                    plainly.collect::<Vec<_>>()
                );
                for KeyChange { key, change } in changes {
                    let told = match change {
                        Change::Added { after } => (None, Some(after)),
                        Change::Removed { before } => (Some(before), None),
                        Change::Changed { before, after } => (Some(before), Some(after)),
                    };
                    assert_eq!(told, (before.get(&key).cloned(), after.get(&key).cloned()));
                }
            }
        }
    }

    #[test]
    fn a_change_is_told_to_programs_too() {
        let before = json!({"a": 1}).as_object().unwrap().clone();
        let after = json!({"a": 2}).as_object().unwrap().clone();
        let told = serde_json::to_value(diff(&before, &after)).unwrap();
        assert_eq!(told, json!([{"key": "a", "change": "changed", "before": 1, "after": 2}]));
    }
}
