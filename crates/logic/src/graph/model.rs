//! The graph itself: nodes in order of their names, and two kinds of edges between them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::data::Risk;
use super::note::Place;
use super::release::{Arch, ReleaseName};

/// Position of a node in its graph.
pub type NodeId = u32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: ReleaseName,
    pub payload: String,
    /// With the channels of graph data merged into the label, so that a service chained onto this one sees them.
    pub metadata: BTreeMap<String, String>,
    /// Approved for these.
    pub channels: BTreeSet<Arc<str>>,
}

/// The risks of a conditional edge, sorted; the same set is shared by all edges that have it.
pub type Risks = Arc<[Risk]>;

/// What took an edge away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    pub place: Place,
    pub text: String,
}

/// An acyclic graph (plain and conditional edges together), in one stable order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// Sorted by name.
    pub(super) nodes: Vec<Node>,
    /// By source node: where plain edges lead, sorted.
    pub(super) plain: Vec<Vec<NodeId>>,
    /// By source node: where conditional edges lead, sorted, and under which risks.
    pub(super) conditional: Vec<Vec<(NodeId, Risks)>>,
    /// Edges that were declared and are not there.
    pub(super) removed: BTreeMap<(NodeId, NodeId), Arc<Removed>>,
    /// What channels point at, where graph data says so.
    pub(super) targets: HashMap<Arc<str>, Vec<ReleaseName>>,
}

impl Graph {
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub fn plain(&self, from: NodeId) -> &[NodeId] {
        &self.plain[from as usize]
    }

    pub fn conditional(&self, from: NodeId) -> &[(NodeId, Risks)] {
        &self.conditional[from as usize]
    }

    pub fn removed(&self) -> &BTreeMap<(NodeId, NodeId), Arc<Removed>> {
        &self.removed
    }

    /// Every way out of a node, plain or conditional.
    pub fn ways(&self, from: NodeId) -> impl Iterator<Item = NodeId> {
        let conditional = self.conditional(from).iter().map(|(to, _)| *to);
        self.plain(from).iter().copied().chain(conditional)
    }

    pub fn find(&self, name: &ReleaseName) -> Option<NodeId> {
        self.nodes.binary_search_by(|node| node.name.cmp(name)).ok().map(|at| at as NodeId)
    }

    /// The node of a client: of its architecture, or one that makes no claim.
    pub fn find_for(&self, version: &semver::Version, arch: Option<&Arch>) -> Option<NodeId> {
        let named = ReleaseName::new(version.clone(), arch.cloned());
        self.find(&named).or_else(|| self.find(&ReleaseName::new(version.clone(), None)))
    }

    pub fn architectures(&self) -> BTreeSet<&Arch> {
        self.nodes.iter().filter_map(|node| node.name.arch.as_ref()).collect()
    }

    pub fn channels(&self) -> BTreeSet<&Arc<str>> {
        self.nodes.iter().flat_map(|node| &node.channels).chain(self.targets.keys()).collect()
    }

    /// What graph data says a channel points at, for an architecture. Such a release need not exist.
    pub fn pointer(&self, channel: &str, arch: Option<&Arch>) -> Option<&semver::Version> {
        let names = self.targets.get(channel)?;
        let fitting = names.iter().find(|name| name.arch.is_none() || name.arch.as_ref() == arch);
        fitting.map(|name| &name.version)
    }

    /// What a channel leads to: its newest approved release, but none that is newer than where graph data points. A
    /// pointer to what is not approved, or not there, so holds clients back instead of letting all of them go.
    pub fn channel_target(&self, channel: &str, arch: Option<&Arch>) -> Option<NodeId> {
        let pointer = self.pointer(channel, arch);
        let fits = |node: &Node| {
            node.channels.contains(channel)
                && (node.name.arch.is_none() || node.name.arch.as_ref() == arch)
                && pointer.is_none_or(|pointer| node.name.version <= *pointer)
        };
        (0..self.nodes.len() as NodeId).rfind(|&id| fits(self.node(id)))
    }

    pub fn edge_count(&self) -> (usize, usize) {
        (self.plain.iter().map(Vec::len).sum(), self.conditional.iter().map(Vec::len).sum())
    }
}
