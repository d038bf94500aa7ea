//! What became different between two graphs, by name.

use std::collections::BTreeMap;

use serde::Serialize;

use super::data::Risk;
use super::model::{Graph, Node};
use super::release::ReleaseName;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    pub added_releases: Vec<ReleaseName>,
    pub removed_releases: Vec<ReleaseName>,
    pub changed_releases: Vec<ChangedRelease>,
    pub edges: Vec<ChangedEdge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedRelease {
    pub release: ReleaseName,
    pub what: Vec<ChangedValue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedValue {
    /// `payload`, or a key of the metadata.
    pub key: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedEdge {
    pub from: ReleaseName,
    pub to: ReleaseName,
    pub before: Offer,
    pub after: Offer,
}

/// How an edge is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offer {
    Not,
    Plain,
    /// Under these risks.
    Conditional(Vec<String>),
}

impl Difference {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub fn diff(before: &Graph, after: &Graph) -> Difference {
    let mut difference = Difference::default();
    let (old, new) = (by_name(before), by_name(after));
    for (name, node) in &new {
        match old.get(name) {
            None => difference.added_releases.push((*name).clone()),
            Some(earlier) => {
                let what = values(earlier, node);
                if !what.is_empty() {
                    difference.changed_releases.push(ChangedRelease { release: (*name).clone(), what });
                }
            }
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    difference.removed_releases = gone.map(|name| (*name).clone()).collect();

    let (old, new) = (edges(before), edges(after));
    let mut pairs: Vec<_> = old.keys().chain(new.keys()).collect();
    pairs.sort();
    pairs.dedup();
    for pair in pairs {
        // By their whole content: a risk can change and keep its name.
        if old.get(pair) != new.get(pair) {
            difference.edges.push(ChangedEdge {
                from: pair.0.clone(),
                to: pair.1.clone(),
                before: offer(old.get(pair)),
                after: offer(new.get(pair)),
            });
        }
    }
    difference
}

fn by_name(graph: &Graph) -> BTreeMap<&ReleaseName, &Node> {
    graph.nodes().iter().map(|node| (&node.name, node)).collect()
}

fn values(before: &Node, after: &Node) -> Vec<ChangedValue> {
    let flat = |node: &Node| {
        let mut all = node.metadata.clone();
        all.insert("payload".to_owned(), node.payload.clone());
        all
    };
    let (before, after) = (flat(before), flat(after));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let changed = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    let value = |key: &String| ChangedValue {
        key: key.clone(),
        before: before.get(key).cloned(),
        after: after.get(key).cloned(),
    };
    changed.map(value).collect()
}

type Pair<'a> = (&'a ReleaseName, &'a ReleaseName);

/// Each edge with its risks; none for a plain one.
fn edges(graph: &Graph) -> BTreeMap<Pair<'_>, &[Risk]> {
    let name = |id| &graph.node(id).name;
    let mut found = BTreeMap::new();
    for from in 0..graph.nodes().len() as u32 {
        found.extend(graph.plain(from).iter().map(|&to| ((name(from), name(to)), &[][..])));
        let conditional = graph.conditional(from).iter();
        found.extend(conditional.map(|(to, risks)| ((name(from), name(*to)), &risks[..])));
    }
    found
}

fn offer(risks: Option<&&[Risk]>) -> Offer {
    match risks {
        None => Offer::Not,
        Some([]) => Offer::Plain,
        Some(risks) => Offer::Conditional(risks.iter().map(|risk| risk.name.clone()).collect()),
    }
}
