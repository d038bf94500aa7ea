//! The graph that is served: what the generator made up, as the values that a scrape would have found.

use std::collections::BTreeMap;

use logic::graph::data::{Block, Channel, GraphData, MatchingRule, PromQl, Risk};
use logic::graph::release::Origin;
use logic::graph::{Arch, Harvest, Place, Release, ReleaseName};
use testkit::graph_data::{self, Size};

pub const SIZE: Size = Size::LARGE;
const SEED: u64 = 7;

/// Metadata already fetched.
pub fn harvest(round: u64) -> Harvest {
    let releases = graph_data::releases(SIZE, SEED).into_iter().map(|release| {
        let version = semver(&release.version);
        let mut metadata: BTreeMap<String, String> = release.metadata.into_iter().collect();
        // So that a rebuild gives another graph.
        metadata.insert("round".to_owned(), round.to_string());
        Release {
            name: ReleaseName::new(version.version, Arch::parse(release.arch).ok()),
            payload: format!("quay.example.com/product/release@{}", release.digest),
            metadata,
            previous: release.previous,
            next: vec![],
            origin: Origin {
                source: 0,
                tag: format!("{}-{}", release.version, release.arch),
                digest: release.digest,
            },
        }
    });
    Harvest { releases: releases.collect(), ..Harvest::default() }
}

pub fn data() -> GraphData {
    let channels = graph_data::channels(SIZE).into_iter().map(|(name, versions)| Channel {
        name,
        versions: versions.iter().map(|version| (semver(version), Place::Whole)).collect(),
        target: None,
        place: Place::Whole,
    });
    let blocks = graph_data::blocks(SIZE, SEED).into_iter().map(|block| Block {
        to: semver(&block.to),
        from: regex::Regex::new(&block.from).expect("a pattern"),
        risk: block.risk.map(|risk| Risk {
            url: risk.url,
            name: risk.name.to_owned(),
            message: risk.message,
            matching_rules: vec![MatchingRule {
                kind: if risk.promql.is_some() { "PromQL" } else { "Always" }.to_owned(),
                promql: risk.promql.map(|promql| PromQl { promql }),
            }],
        }),
        place: Place::Whole,
    });
    GraphData { channels: channels.collect(), blocks: blocks.collect(), raw: vec![] }
}

fn semver(text: &str) -> ReleaseName {
    ReleaseName::parse(text).expect("a version")
}
