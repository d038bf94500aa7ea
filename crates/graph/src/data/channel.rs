//! `channels/*.yaml`.

use std::collections::BTreeSet;

use logic::graph::data::Channel;
use logic::graph::{Notes, Place, ReleaseName};
use serde::de::{IgnoredAny, MapAccess};

use super::yaml::{self, Text};

#[derive(Debug, Default)]
struct File {
    name: Option<Text>,
    versions: Option<Vec<Text>>,
    target: Option<Text>,
}

impl yaml::Document for File {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "name" => self.name = map.next_value()?,
            "versions" => self.versions = map.next_value()?,
            "target" => self.target = map.next_value()?,
            // How the publishers of public data fill their channels; it has been done when the data gets here.
            "feeder" | "tombstones" | "description" => drop(map.next_value::<IgnoredAny>()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A channel that the file says clearly enough; None where it must be left out.
pub fn read(path: &str, bytes: &[u8], notes: &mut Notes) -> Option<Channel> {
    let at = |line: Option<usize>| Place::File { path: path.to_owned(), line };
    let file = match yaml::read::<File>(bytes) {
        Ok(file) => file,
        Err(mistake) => {
            notes.error("bad-yaml", at(mistake.line), format!("the channel is left out: {}", mistake.text));
            return None;
        }
    };
    for key in &file.unknown {
        notes.warning("unknown-key", at(yaml::line(key)), format!("channels have no {:?}", key.value));
    }
    let File { name, versions, target } = file.document;
    let Some(name) = name else {
        notes.error("missing-key", at(None), "the channel is left out: it has no `name`");
        return None;
    };
    if let Some(why) = unusable(&name.value) {
        let text = format!("the channel is left out: its name {:?} {why}", name.value);
        notes.error("bad-channel", at(yaml::line(&name)), text);
        return None;
    }
    let Some(versions) = versions else {
        notes.error("missing-key", at(None), "the channel is left out: it has no `versions`");
        return None;
    };
    let stem = path.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map_or(path, |(stem, _)| stem);
    if stem != name.value {
        let text = format!("the file is called {stem:?} and the channel in it {:?}", name.value);
        notes.warning("file-name", at(yaml::line(&name)), text);
    }
    let target = match target.map(|text| (ReleaseName::parse(&text.value), at(yaml::line(&text)))) {
        None => None,
        Some((Ok(target), place)) => Some((target, place)),
        Some((Err(error), place)) => {
            // A target holds a channel back from what is newest in it. Without it, a slip of the pen would roll out
            // a release to everybody.
            notes.error("bad-version", place, format!("the channel is left out: its target: {error}"));
            return None;
        }
    };
    let mut approved = vec![];
    let mut seen = BTreeSet::new();
    for version in versions {
        let place = at(yaml::line(&version));
        match ReleaseName::parse(&version.value) {
            Ok(release) if seen.insert(release.clone()) => approved.push((release, place)),
            Ok(release) => notes.warning("same-version", place, format!("{release} is there twice")),
            Err(error) => notes.error("bad-version", place, format!("it is left out: {error}")),
        }
    }
    Some(Channel { name: name.value.clone(), versions: approved, target, place: at(yaml::line(&name)) })
}

const NAME_LIMIT: usize = 256;

/// Channels are passed on to other services as a list with commas.
fn unusable(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("is empty")
    } else if name.len() > NAME_LIMIT {
        Some("is too long")
    } else if name.chars().any(|c| c == ',' || c.is_whitespace() || c.is_control()) {
        Some("has blanks or commas in it")
    } else {
        None
    }
}
