//! Which releases become nodes, under which labels, approved for which channels.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::graph::data::{Channel, RawLabels};
use crate::graph::labels;
use crate::graph::model::Node;
use crate::graph::note::{Notes, Place};
use crate::graph::release::{Release, ReleaseName};

/// One release for each name, sorted. Of several, the one whose origin sorts first: the first source, then the first
/// tag by name.
pub(super) fn choose(mut releases: Vec<Release>, notes: &mut Notes) -> Vec<Release> {
    releases.sort_by(|a, b| (&a.name, &a.origin).cmp(&(&b.name, &b.origin)));
    let mut chosen: Vec<Release> = Vec::with_capacity(releases.len());
    for release in releases {
        match chosen.last() {
            Some(first) if first.name == release.name => {
                if !same_image(first, &release) {
                    notes.error(
                        "same-version",
                        Place::Release(release.name.to_string()),
                        format!(
                            "two images claim this version: {} is served, {} is not",
                            first.origin, release.origin
                        ),
                    );
                }
            }
            _ => chosen.push(release),
        }
    }
    chosen
}

/// Two tags on one manifest are one release; so is an image that two sources know, perhaps under two addresses.
fn same_image(a: &Release, b: &Release) -> bool {
    match (a.origin.digest.as_str(), b.origin.digest.as_str()) {
        ("", _) | (_, "") => a.payload == b.payload,
        (a, b) => a == b,
    }
}

/// Adds the labels of graph data, then drops the releases whose labels say so.
pub(super) fn label(mut releases: Vec<Release>, raw: &[RawLabels], notes: &mut Notes) -> Vec<Release> {
    let mut by_version: HashMap<semver::Version, Vec<usize>> = HashMap::new();
    for (at, release) in releases.iter().enumerate() {
        by_version.entry(release.name.version.clone()).or_default().push(at);
    }
    // Sorted, so that labels join in one order wherever they were written.
    let mut raw: Vec<&RawLabels> = raw.iter().collect();
    raw.sort_by(|a, b| (&a.release, &a.place).cmp(&(&b.release, &b.place)));
    for entry in raw {
        let mut met = false;
        for &at in by_version.get(&entry.release.version).map_or(&[][..], Vec::as_slice) {
            let release = &mut releases[at];
            if entry.release.arch.is_none() || entry.release.arch == release.name.arch {
                met = true;
                for (key, value) in &entry.labels {
                    join(&mut release.metadata, key, value);
                }
            }
        }
        if !met {
            unknown(notes, entry.place.clone(), &entry.release);
        }
    }
    releases.retain(|release| match release.metadata.get(labels::RELEASE_REMOVE).map(|value| value.trim()) {
        None | Some("false") => true,
        Some("true") => false,
        Some(other) => {
            notes.error(
                "bad-label",
                Place::Release(release.name.to_string()),
                format!("{} is {other:?}; only true and false are understood", labels::RELEASE_REMOVE),
            );
            true
        }
    });
    releases
}

/// Lists grow, patterns become alternatives, anything else is replaced.
fn join(metadata: &mut BTreeMap<String, String>, key: &str, value: &str) {
    let Some(old) = metadata.get_mut(key) else {
        metadata.insert(key.to_owned(), value.to_owned());
        return;
    };
    *old = match key {
        labels::PREVIOUS_ADD
        | labels::PREVIOUS_REMOVE
        | labels::NEXT_ADD
        | labels::NEXT_REMOVE
        | labels::RELEASE_CHANNELS => format!("{old},{value}"),
        labels::PREVIOUS_REMOVE_REGEX if old != value => format!("(?:{old})|(?:{value})"),
        _ => value.to_owned(),
    };
}

pub(super) fn unknown(notes: &mut Notes, place: Place, name: &ReleaseName) {
    notes.warning("unknown-version", place, format!("no release {name} is known; skipped"));
}

/// The nodes, in the order of `releases`, with the channels of labels and files.
pub(super) fn approve(releases: &[Release], channels: &[Channel], notes: &mut Notes) -> Vec<Node> {
    let mut approved: HashMap<&ReleaseName, BTreeSet<Arc<str>>> = HashMap::new();
    let mut names: HashMap<&semver::Version, Vec<&ReleaseName>> = HashMap::new();
    for release in releases {
        names.entry(&release.name.version).or_default().push(&release.name);
    }
    for channel in channels {
        let channel_name: Arc<str> = channel.name.as_str().into();
        for (version, place) in &channel.versions {
            let meant = names.get(&version.version).map_or(&[][..], Vec::as_slice);
            let mut meant = meant.iter().filter(|name| version.arch.is_none() || name.arch == version.arch);
            let first = meant.next();
            if first.is_none() {
                unknown(notes, place.clone(), version);
            }
            for name in first.into_iter().chain(meant) {
                approved.entry(name).or_default().insert(Arc::clone(&channel_name));
            }
        }
    }
    let mut shared: HashSet<Arc<str>> = HashSet::new();
    let node = |release: &Release| {
        let mut channels = approved.remove(&release.name).unwrap_or_default();
        let mut metadata = release.metadata.clone();
        for label in labels::entries(metadata.get(labels::RELEASE_CHANNELS).map_or("", String::as_str)) {
            let name = shared.get(label).cloned().unwrap_or_else(|| label.into());
            shared.insert(Arc::clone(&name));
            channels.insert(name);
        }
        if !channels.is_empty() {
            let list: Vec<&str> = channels.iter().map(AsRef::as_ref).collect();
            metadata.insert(labels::RELEASE_CHANNELS.to_owned(), list.join(","));
        }
        Node { name: release.name.clone(), payload: release.payload.clone(), metadata, channels }
    };
    releases.iter().map(node).collect()
}

pub(super) fn targets(
    channels: &[Channel],
    nodes: &[Node],
    notes: &mut Notes,
) -> HashMap<Arc<str>, Vec<ReleaseName>> {
    let mut targets: HashMap<Arc<str>, Vec<ReleaseName>> = HashMap::new();
    for channel in channels {
        let Some((target, place)) = &channel.target else { continue };
        let fits = |node: &Node| {
            node.name.version == target.version && (target.arch.is_none() || node.name.arch == target.arch)
        };
        let known: Vec<&Node> = nodes.iter().filter(|node| fits(node)).collect();
        if known.is_empty() {
            unknown(notes, place.clone(), target);
        } else if !known.iter().any(|node| node.channels.contains(channel.name.as_str())) {
            let text = format!(
                "target {target} is not approved for {}: the channel leads to what is approved before it",
                channel.name
            );
            notes.error("bad-target", place.clone(), text);
        }
        targets.entry(channel.name.as_str().into()).or_default().push(target.clone());
    }
    targets.values_mut().for_each(|names| names.sort());
    targets
}
