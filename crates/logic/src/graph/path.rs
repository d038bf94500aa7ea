//! How to get from one release to another, and if there is no way, what is in it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::Serialize;

use super::model::{Graph, NodeId};
use super::release::{Arch, ReleaseName};

/// The answer to "how do I get there?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum Path {
    /// The two are the same.
    Here,
    Way {
        hops: Vec<Hop>,
    },
    /// There would be one, but for these.
    Hindered {
        hops: Vec<Hop>,
        hindrances: Vec<Hindrance>,
    },
    /// Nothing that anybody ever declared leads there.
    None {
        /// The newest release that can be reached instead.
        newest: Option<ReleaseName>,
    },
    Unknown {
        release: ReleaseName,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hop {
    pub from: ReleaseName,
    pub to: ReleaseName,
    /// Names of the risks to weigh; none for a plain edge.
    pub risks: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Hindrance {
    /// A release on the way is not approved for the channel.
    NotApproved { release: ReleaseName, channel: String, approved_for: Vec<String> },
    /// An edge on the way was taken away.
    Removed { from: ReleaseName, to: ReleaseName, by: String, why: String },
}

/// Of all ways the one with the fewest hindrances, then the fewest risks, then the fewest hops.
type Cost = (u32, u32, u32);

/// The safest way for a client of `channel`; without a channel, every release may be on it.
pub fn path(
    graph: &Graph,
    from: &semver::Version,
    to: &semver::Version,
    channel: Option<&str>,
    arch: Option<&Arch>,
) -> Path {
    let unknown = |version: &semver::Version| Path::Unknown {
        release: ReleaseName::new(version.clone(), arch.cloned()),
    };
    let Some(start) = graph.find_for(from, arch) else { return unknown(from) };
    let Some(end) = graph.find_for(to, arch) else { return unknown(to) };
    if start == end {
        return Path::Here;
    }
    let search = Search { graph, channel };
    let (cost, came_from) = search.run(start);
    if cost[end as usize].is_none() {
        let open = |id: &NodeId| matches!(cost[*id as usize], Some((0, _, _))) && *id != start;
        let newest = (0..cost.len() as NodeId).rfind(open).map(|id| graph.node(id).name.clone());
        return Path::None { newest };
    }
    let back = std::iter::successors(Some(end), |&id| came_from[id as usize]);
    let mut stops: Vec<NodeId> = back.collect();
    stops.reverse();
    let pairs = || stops.iter().copied().zip(stops.iter().copied().skip(1));
    let hops = pairs().map(|(from, to)| search.hop(from, to)).collect();
    let hindrances: Vec<Hindrance> = pairs().flat_map(|(from, to)| search.hindrances(from, to)).collect();
    match hindrances.is_empty() {
        true => Path::Way { hops },
        false => Path::Hindered { hops, hindrances },
    }
}

struct Search<'a> {
    graph: &'a Graph,
    channel: Option<&'a str>,
}

impl Search<'_> {
    fn approved(&self, id: NodeId) -> bool {
        self.channel.is_none_or(|channel| self.graph.node(id).channels.contains(channel))
    }

    /// Cheapest cost of every node, and the node before it. Edges that were taken away are ways too, at a price.
    fn run(&self, start: NodeId) -> (Vec<Option<Cost>>, Vec<Option<NodeId>>) {
        let count = self.graph.nodes().len();
        let mut cost: Vec<Option<Cost>> = vec![None; count];
        let mut came_from = vec![None; count];
        cost[start as usize] = Some((0, 0, 0));
        let mut heap = BinaryHeap::from([Reverse(((0, 0, 0), start))]);
        while let Some(Reverse((so_far, at))) = heap.pop() {
            if cost[at as usize] != Some(so_far) {
                continue;
            }
            let plain = self.graph.plain(at).iter().map(|&to| (to, 0, 0));
            let conditional = self.graph.conditional(at).iter().map(|(to, _)| (*to, 0, 1));
            let removed = self.graph.removed().range((at, 0)..=(at, NodeId::MAX));
            let removed = removed.map(|((_, to), _)| (*to, 1, 0));
            for (to, hindered, risky) in plain.chain(conditional).chain(removed) {
                let hindered = hindered + u32::from(!self.approved(to));
                let next = (so_far.0 + hindered, so_far.1 + risky, so_far.2 + 1);
                if cost[to as usize].is_none_or(|known| next < known) {
                    cost[to as usize] = Some(next);
                    came_from[to as usize] = Some(at);
                    heap.push(Reverse((next, to)));
                }
            }
        }
        (cost, came_from)
    }

    fn hop(&self, from: NodeId, to: NodeId) -> Hop {
        let under = self.graph.conditional(from).iter().find(|(other, _)| *other == to);
        let risks =
            under.map_or_else(Vec::new, |(_, risks)| risks.iter().map(|risk| risk.name.clone()).collect());
        Hop { from: self.graph.node(from).name.clone(), to: self.graph.node(to).name.clone(), risks }
    }

    fn hindrances(&self, from: NodeId, to: NodeId) -> Vec<Hindrance> {
        let mut found = Vec::new();
        let (source, target) = (self.graph.node(from), self.graph.node(to));
        let there = self.graph.ways(from).any(|other| other == to);
        if let Some(removed) = self.graph.removed().get(&(from, to)).filter(|_| !there) {
            found.push(Hindrance::Removed {
                from: source.name.clone(),
                to: target.name.clone(),
                by: removed.place.to_string(),
                why: removed.text.clone(),
            });
        }
        if let Some(channel) = self.channel.filter(|_| !self.approved(to)) {
            found.push(Hindrance::NotApproved {
                release: target.name.clone(),
                channel: channel.to_owned(),
                approved_for: target.channels.iter().map(ToString::to_string).collect(),
            });
        }
        found
    }
}
