//! `raw/metadata.json`: labels by version.

use std::collections::{BTreeMap, HashMap};

use logic::graph::data::RawLabels;
use logic::graph::{Notes, Place, ReleaseName, labels};
use serde::de::MapAccess;

use super::yaml;

type Entries = BTreeMap<String, BTreeMap<String, Option<String>>>;

pub fn read(path: &str, bytes: &[u8], notes: &mut Notes) -> Vec<RawLabels> {
    let at = |line: Option<usize>| Place::File { path: path.to_owned(), line };
    let entries: Entries = match serde_json::from_slice(bytes) {
        Ok(entries) => entries,
        Err(error) => {
            let text = format!("none of its labels are used: {error}");
            notes.error("bad-json", at(Some(error.line()).filter(|line| *line > 0)), text);
            return vec![];
        }
    };
    let lines = lines(bytes, &at, notes);
    let mut raw = vec![];
    for (version, entries) in entries {
        let place = at(lines.get(&version).copied());
        let release = match ReleaseName::parse(&version) {
            Ok(release) => release,
            Err(error) => {
                notes.error("bad-version", place, format!("its labels are left out: {error}"));
                continue;
            }
        };
        let mut labels: BTreeMap<String, String> =
            entries.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        for key in labels.keys() {
            if key.starts_with(labels::PREFIX) && !labels::KNOWN.contains(&key.as_str()) {
                notes.warning(
                    "unknown-label",
                    place.clone(),
                    format!("{release}: no label is called {key:?}"),
                );
            }
        }
        if let Some(pattern) = labels.get_mut(labels::PREVIOUS_REMOVE_REGEX)
            && regex::Regex::new(pattern).is_err()
        {
            let key = labels::PREVIOUS_REMOVE_REGEX;
            let text =
                format!("{release}: {key} is not a pattern; until this is mended, all of its edges go");
            notes.error("bad-pattern", place.clone(), text);
            // It was to take edges away, and joined to a good one it would spoil that, too.
            ".*".clone_into(pattern);
        }
        raw.push(RawLabels { release, labels, place });
    }
    raw
}

/// JSON is YAML, whose reader knows lines, and notices keys that are there twice. What it can't read of JSON (some
/// escapes) is read all the same, only without lines.
fn lines(bytes: &[u8], at: &impl Fn(Option<usize>) -> Place, notes: &mut Notes) -> HashMap<String, usize> {
    match yaml::read::<Keys>(bytes) {
        Ok(read) => {
            let lines = read.unknown.iter().filter_map(|key| Some((key.value.clone(), yaml::line(key)?)));
            lines.collect()
        }
        Err(mistake) => {
            if mistake.text.contains("duplicate") {
                notes.error(
                    "same-version",
                    at(mistake.line),
                    format!("the last one holds: {}", mistake.text),
                );
            }
            HashMap::new()
        }
    }
}

/// A document of which only the keys matter: all of them are unknown.
#[derive(Debug, Default)]
struct Keys;

impl yaml::Document for Keys {
    fn take<'de, A: MapAccess<'de>>(&mut self, _: &str, _: &mut A) -> Result<bool, A::Error> {
        Ok(false)
    }
}
