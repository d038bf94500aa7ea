//! What graph data says that its writers probably did not mean. Looks at graph data alone: releases are not known
//! here, so nothing is said about edges that exist.

use std::collections::BTreeMap;

use super::data::{Block, Channel, GraphData};
use super::note::{Notes, Place};
use super::release::ReleaseName;

/// All of it, in one stable order.
pub fn lint(data: &GraphData) -> Notes {
    let mut notes = Notes::default();
    targets(data, &mut notes);
    blocks_without_effect(data, &mut notes);
    names_without_channel(data, &mut notes);
    left_behind(data, &mut notes);
    notes.sort();
    notes
}

/// Channels by how sure one is of what is in them, the least sure first.
const STABILITY: [&str; 4] = ["candidate", "fast", "stable", "eus"];

/// How stable a channel is, and which stream it belongs to: `stable-4.16` is (2, "4.16").
fn rank(channel: &str) -> Option<(usize, &str)> {
    let (prefix, stream) = channel.split_once('-')?;
    Some((STABILITY.iter().position(|known| *known == prefix)?, stream))
}

/// Whether a name in graph data can mean a release that the other one means.
fn meets(a: &ReleaseName, b: &ReleaseName) -> bool {
    a.version == b.version && (a.arch.is_none() || b.arch.is_none() || a.arch == b.arch)
}

/// Whether everything that `b` means is meant by `a`.
fn covers(a: &ReleaseName, b: &ReleaseName) -> bool {
    a.version == b.version && (a.arch.is_none() || a.arch == b.arch)
}

fn has(channel: &Channel, name: &ReleaseName) -> bool {
    channel.versions.iter().any(|(version, _)| meets(version, name))
}

/// Whether a block takes every edge into its release away, whatever the releases are called.
fn withdraws(block: &Block) -> bool {
    block.risk.is_none() && matches_everything(block)
}

fn matches_everything(block: &Block) -> bool {
    let pattern = block.from.as_str();
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    matches!(pattern.strip_suffix('$').unwrap_or(pattern), "" | ".*" | ".+" | "(.*)" | ".")
}

fn withdrawal<'a>(data: &'a GraphData, name: &ReleaseName) -> Option<&'a Block> {
    data.blocks.iter().find(|block| withdraws(block) && covers(&block.to, name))
}

fn targets(data: &GraphData, notes: &mut Notes) {
    for channel in &data.channels {
        let Some((target, place)) = &channel.target else { continue };
        if !has(channel, target) {
            let text = format!("{} points at {target}, which is not among its versions", channel.name);
            notes.error("target-not-approved", place.clone(), text);
        } else if let Some(block) = withdrawal(data, target) {
            let text = format!(
                "{} points at {target}, and {} takes away every way there",
                channel.name, block.place
            );
            notes.warning("target-withdrawn", place.clone(), text);
        }
    }
}

fn blocks_without_effect(data: &GraphData, notes: &mut Notes) {
    // Where two files withdraw the same release, the later one is superfluous, not both.
    for (position, block) in data.blocks.iter().enumerate() {
        let stronger = data.blocks.iter().enumerate().find(|(other, one)| {
            let first = !withdraws(block) || *other < position;
            *other != position && first && withdraws(one) && covers(&one.to, &block.to)
        });
        if let Some((_, stronger)) = stronger {
            let text =
                format!("{} takes away every way to {}: this changes nothing", stronger.place, block.to);
            notes.warning("block-without-effect", block.place.clone(), text);
        }
    }
}

fn names_without_channel(data: &GraphData, notes: &mut Notes) {
    let named = data.blocks.iter().map(|block| (&block.to, &block.place));
    let named = named.chain(data.raw.iter().map(|raw| (&raw.release, &raw.place)));
    let mut known: BTreeMap<&semver::Version, Vec<&ReleaseName>> = BTreeMap::new();
    for (name, _) in data.channels.iter().flat_map(|channel| &channel.versions) {
        known.entry(&name.version).or_default().push(name);
    }
    for (name, place) in named {
        let found = known.get(&name.version).is_some_and(|names| names.iter().any(|one| meets(one, name)));
        if !found {
            notes.warning("unknown-version", place.clone(), format!("no channel has {name}"));
        }
    }
}

/// A release that a stabler channel of the same stream passed over, and that a less stable one still leads to.
fn left_behind(data: &GraphData, notes: &mut Notes) {
    let ranked = |channel: &'_ Channel| rank(&channel.name).map(|(rank, stream)| (rank, stream.to_owned()));
    for channel in &data.channels {
        let Some((own, stream)) = ranked(channel) else { continue };
        for (name, place) in &channel.versions {
            // Release candidates are never promoted.
            if !name.version.pre.is_empty() {
                continue;
            }
            let stabler = data
                .channels
                .iter()
                .filter(|other| ranked(other).is_some_and(|(rank, theirs)| rank > own && theirs == stream));
            let excluding: Vec<&str> =
                stabler.filter(|other| passed_over(other, name)).map(|other| other.name.as_str()).collect();
            if !excluding.is_empty() && withdrawal(data, name).is_none() {
                let text = format!(
                    "{} still leads to {name}, which {} passed over: withdraw it, or approve it there",
                    channel.name,
                    excluding.join(" and ")
                );
                notes.warning("left-behind", Place::clone(place), text);
            }
        }
    }
}

/// Not there, although something newer of the same minor version is: that it was not promoted yet is no explanation.
fn passed_over(channel: &Channel, name: &ReleaseName) -> bool {
    let same =
        |other: &semver::Version| (other.major, other.minor) == (name.version.major, name.version.minor);
    let newer = |(other, _): &(ReleaseName, Place)| same(&other.version) && other.version > name.version;
    !has(channel, name) && channel.versions.iter().any(newer)
}

#[cfg(test)]
mod tests {
    use super::super::data::{RawLabels, Risk};
    use super::*;
    use regex::Regex;

    fn name(text: &str) -> ReleaseName {
        ReleaseName::parse(text).unwrap()
    }

    fn place(path: &str, line: usize) -> Place {
        Place::File { path: path.into(), line: Some(line) }
    }

    fn channel(called: &str, versions: &[&str], target: Option<&str>) -> Channel {
        let at = |line: usize| place(called, line);
        let versions = versions.iter().enumerate().map(|(line, text)| (name(text), at(line + 3)));
        Channel {
            name: called.into(),
            versions: versions.collect(),
            target: target.map(|text| (name(text), at(2))),
            place: at(1),
        }
    }

    fn block(path: &str, to: &str, from: &str, conditional: bool) -> Block {
        let risk = conditional.then(|| Risk {
            url: "u".into(),
            name: "n".into(),
            message: "m".into(),
            matching_rules: vec![],
        });
        Block { to: name(to), from: Regex::new(from).unwrap(), risk, place: place(path, 1) }
    }

    fn found(channels: Vec<Channel>, blocks: Vec<Block>) -> Vec<(&'static str, String)> {
        let notes = lint(&GraphData { channels, blocks, raw: vec![] });
        notes.iter().map(|note| (note.code, note.place.to_string())).collect()
    }

    #[test]
    fn a_target_must_be_approved_and_reachable() {
        let versions = ["1.0.0", "1.0.1+amd64"];
        assert_eq!(found(vec![channel("s", &versions, Some("1.0.1"))], vec![]), []);
        let wrong = vec![channel("s", &versions, Some("1.0.2"))];
        assert_eq!(found(wrong, vec![]), [("target-not-approved", "s:2".to_owned())]);
        let withdrawn = vec![channel("s", &versions, Some("1.0.0"))];
        let blocks = vec![block("b", "1.0.0", ".*", false)];
        assert_eq!(found(withdrawn, blocks), [("target-withdrawn", "s:2".to_owned())]);
    }

    #[test]
    fn a_block_beside_a_withdrawal_changes_nothing_and_only_one_of_two_withdrawals_is_superfluous() {
        let channels = || vec![channel("s", &["1.0.0", "1.1.0"], None)];
        let blocks = vec![
            block("a", "1.0.0", ".*", false),
            block("b", "1.0.0", "^0[.]9", false),
            block("c", "1.0.0+amd64", ".*", true),
            block("d", "1.1.0", ".*", true),
            block("e", "1.0.0", "^.*$", false),
        ];
        let expected = ["b:1", "c:1", "e:1"].map(|at| ("block-without-effect", at.to_owned()));
        assert_eq!(found(channels(), blocks), expected);
        // For one architecture only, the others still need theirs.
        let blocks = vec![block("a", "1.0.0+amd64", ".*", false), block("b", "1.0.0", "x", false)];
        assert_eq!(found(channels(), blocks), []);
    }

    #[test]
    fn what_blocks_and_labels_name_is_in_some_channel() {
        let channels = vec![channel("s", &["1.0.0+amd64"], None)];
        let blocks = vec![
            block("a", "1.0.0", "x", false),
            block("b", "1.0.0+s390x", "x", false),
            block("c", "2.0.0", "x", false),
        ];
        let raw = RawLabels { release: name("3.0.0"), labels: BTreeMap::new(), place: place("raw", 7) };
        let notes = lint(&GraphData { channels, blocks, raw: vec![raw] });
        let places: Vec<_> = notes.iter().map(|note| (note.code, note.place.to_string())).collect();
        assert_eq!(places, ["b:1", "c:1", "raw:7"].map(|at| ("unknown-version", at.to_owned())));
    }

    #[test]
    fn a_release_that_a_stabler_channel_passed_over_is_flagged_until_it_is_withdrawn() {
        let channels = || {
            vec![
                channel("candidate-1.2", &["1.2.0-rc.1", "1.2.1", "1.2.2", "1.2.3", "1.2.9", "1.1.5"], None),
                channel("fast-1.2", &["1.2.1", "1.2.2", "1.2.3"], None),
                channel("stable-1.2", &["1.2.1", "1.2.3"], None),
                channel("stable-1.3", &["1.2.9"], None),
                channel("nightly", &["1.2.2"], None),
            ]
        };
        // 1.2.9 is not promoted yet; 1.1.5 has nothing newer beside it; the candidate is one.
        let expected = ["candidate-1.2:5", "fast-1.2:4"].map(|at| ("left-behind", at.to_owned()));
        assert_eq!(found(channels(), vec![]), expected);
        assert_eq!(found(channels(), vec![block("b", "1.2.2", ".*", false)]), []);
        // Held back for some is not withdrawn.
        assert_eq!(found(channels(), vec![block("b", "1.2.2", "1[.]1", false)]).len(), 2);
    }

    #[test]
    fn channels_without_a_dash_or_of_another_kind_are_left_alone() {
        let channels = vec![channel("stable", &["1.0.1"], None), channel("candidate", &["1.0.0"], None)];
        assert_eq!(found(channels, vec![]), []);
    }
}
