//! What holds for one client, one owner or the whole fleet beyond what the graph says: a hotfix for one customer, a hold
//! for another.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::release::ReleaseName;

/// The owners file: who owns which id, and the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Owners {
    /// Owner by the id of a device or cluster.
    pub ids: BTreeMap<String, String>,
    #[serde(rename = "override")]
    pub rules: Vec<Rule>,
}

/// One override. It concerns an id, else an owner, else everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    pub id: Option<String>,
    pub owner: Option<String>,
    /// Only for clients that follow it.
    pub channel: Option<String>,
    /// Offered though the channel does not approve them.
    pub add_releases: Vec<ReleaseName>,
    /// Not offered though it does. Those on them can leave.
    pub remove_releases: Vec<ReleaseName>,
    pub add_edges: Vec<(ReleaseName, ReleaseName)>,
    pub remove_edges: Vec<(ReleaseName, ReleaseName)>,
    /// No update at all.
    pub hold: bool,
    /// For people.
    pub reason: Option<String>,
}

/// The rules that concern one client, in one. The more specific ones have the last word; within one level removal
/// beats addition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    pub(super) hold: bool,
    pub(super) releases: BTreeMap<ReleaseName, Change>,
    pub(super) edges: BTreeMap<(ReleaseName, ReleaseName), Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Removed,
}

/// The rules that concern a client, as positions in [`Owners::rules`]. Small, and the same for all clients that are
/// treated alike, so that answers can be cached by it.
pub type Applying = Vec<u32>;

impl Owners {
    /// `owner` is the one that was looked up; the file's own entry counts before it.
    pub fn applying(&self, id: &str, owner: Option<&str>, channel: &str) -> Applying {
        let owner = self.ids.get(id).map(String::as_str).or(owner);
        let concerns = |rule: &Rule| {
            rule.id.as_deref().is_none_or(|wanted| wanted == id)
                && rule.owner.as_deref().is_none_or(|wanted| Some(wanted) == owner)
                && rule.channel.as_deref().is_none_or(|wanted| wanted == channel)
        };
        (0..).zip(&self.rules).filter(|(_, rule)| concerns(rule)).map(|(at, _)| at).collect()
    }

    /// Whether anybody's owner matters at all.
    pub fn needs_owners(&self) -> bool {
        self.rules.iter().any(|rule| rule.owner.is_some())
    }

    pub fn overrides(&self, applying: &[u32]) -> Overrides {
        let mut overrides = Overrides::default();
        let rules: Vec<&Rule> = applying.iter().filter_map(|&at| self.rules.get(at as usize)).collect();
        let levels: BTreeSet<u8> = rules.iter().map(|rule| rule.level()).collect();
        for level in levels {
            let rules = || rules.iter().filter(move |rule| rule.level() == level);
            for rule in rules() {
                overrides.change(&rule.add_releases, &rule.add_edges, Change::Added);
            }
            for rule in rules() {
                overrides.change(&rule.remove_releases, &rule.remove_edges, Change::Removed);
                overrides.hold |= rule.hold;
            }
        }
        overrides
    }
}

impl Rule {
    fn level(&self) -> u8 {
        match (&self.id, &self.owner) {
            (Some(_), _) => 2,
            (None, Some(_)) => 1,
            (None, None) => 0,
        }
    }
}

impl Overrides {
    fn change(&mut self, releases: &[ReleaseName], edges: &[(ReleaseName, ReleaseName)], change: Change) {
        self.releases.extend(releases.iter().map(|name| (name.clone(), change)));
        self.edges.extend(edges.iter().map(|edge| (edge.clone(), change)));
    }
}
