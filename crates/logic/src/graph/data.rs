//! Graph data: what people decide about releases, apart from the releases themselves. The public layout's files as
//! values; reading them from files is not done here.

use std::collections::BTreeMap;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::note::Place;
use super::release::ReleaseName;

/// All files of one graph-data tree.
#[derive(Debug, Clone, Default)]
pub struct GraphData {
    pub channels: Vec<Channel>,
    pub blocks: Vec<Block>,
    /// `raw/metadata.json`: labels by version, added to what a release carries itself.
    pub raw: Vec<RawLabels>,
}

/// `channels/*.yaml`.
#[derive(Debug, Clone)]
pub struct Channel {
    pub name: String,
    /// Approved releases; without an architecture, all of them. Each with its line.
    pub versions: Vec<(ReleaseName, Place)>,
    /// The release that the channel points at; the newest approved one where it is not given.
    pub target: Option<(ReleaseName, Place)>,
    pub place: Place,
}

/// `blocked-edges/*.yaml`: the edges into one release from every version that a pattern matches.
#[derive(Debug, Clone)]
pub struct Block {
    /// Without an architecture, all of them.
    pub to: ReleaseName,
    /// Searched for in `version+arch` of the release that the edge leaves from; not anchored.
    pub from: Regex,
    /// None: the edges go. Some: they stay, under this risk.
    pub risk: Option<Risk>,
    pub place: Place,
}

#[derive(Debug, Clone)]
pub struct RawLabels {
    pub release: ReleaseName,
    pub labels: BTreeMap<String, String>,
    pub place: Place,
}

/// Why a client might not want to take an edge, and how it finds out whether that concerns it. The shape that clients
/// of the Cincinnati protocol read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Risk {
    pub url: String,
    pub name: String,
    pub message: String,
    #[serde(rename = "matchingRules")]
    pub matching_rules: Vec<MatchingRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MatchingRule {
    /// `Always`, `PromQL`, or one that only newer clients know: those must be passed on.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<PromQl>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PromQl {
    pub promql: String,
}
