//! From the one graph to what one client sees of it.
//!
//! A channel is a pointer: the client sees one root, its own version, and one leaf, the release that the channel leads it
//! to; everything between lies on a way from the one to the other, so that every choice is safe.

use std::collections::BTreeMap;

use semver::Version;

use super::model::{Graph, NodeId, Risks};
use super::overrides::{Change, Overrides};
use super::release::{Arch, ReleaseName};

/// What a client says of itself.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub version: &'a Version,
    pub channel: &'a str,
    pub arch: Option<&'a Arch>,
    /// All of the channel, and not only the way from the client to its target.
    pub whole_channel: bool,
    /// The graph is already what another service shows to this client: its one leaf is the target.
    pub narrowed: bool,
}

/// Part of a graph, in the graph's order. Edges are positions in `nodes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub nodes: Vec<NodeId>,
    pub edges: Vec<(u32, u32)>,
    pub conditional: Vec<ConditionalGroup>,
}

/// Edges under the same risks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalGroup {
    pub edges: Vec<(u32, u32)>,
    pub risks: Risks,
}

/// The architecture of a client that may not have said it.
pub fn arch_of(graph: &Graph, asked: Option<Arch>, default: Option<&Arch>) -> Option<Arch> {
    asked.or_else(|| default.cloned()).or_else(|| {
        let mut known = graph.architectures().into_iter();
        match (known.next(), known.next()) {
            (Some(only), None) => Some(only.clone()),
            (None, _) => None,
            // What clients of this protocol were before they learnt to say it.
            _ => Arch::parse("amd64").ok(),
        }
    })
}

pub fn view(graph: &Graph, ask: &Ask, overrides: &Overrides) -> View {
    let Some(terrain) = Terrain::new(graph, ask, overrides) else { return View::default() };
    if ask.whole_channel {
        return terrain.show(|id| terrain.offered(id));
    }
    let Some(root) = terrain.root else { return View::default() };
    let reached = terrain.forward(root);
    let leaf = terrain.leaf(root, &reached, ask);
    let arriving = terrain.backward(leaf, &reached);
    terrain.show(|id| arriving[id as usize])
}

/// The graph as one client may walk it.
struct Terrain<'a> {
    graph: &'a Graph,
    root: Option<NodeId>,
    approved: Vec<bool>,
    added: Vec<(NodeId, NodeId)>,
    removed: Vec<(NodeId, NodeId)>,
    hold: bool,
    /// Nothing newer is led to.
    pointer: Option<&'a Version>,
}

impl<'a> Terrain<'a> {
    /// None where nothing of the graph concerns the client.
    fn new(graph: &'a Graph, ask: &Ask, overrides: &Overrides) -> Option<Self> {
        let fits = |arch: Option<&Arch>| arch.is_none() || arch == ask.arch;
        let nodes = graph.nodes().iter();
        let mut approved: Vec<bool> =
            nodes.map(|node| fits(node.name.arch.as_ref()) && node.channels.contains(ask.channel)).collect();
        if approved.is_empty() {
            return None;
        }
        let find = |name: &ReleaseName| {
            fits(name.arch.as_ref()).then(|| graph.find_for(&name.version, ask.arch)).flatten()
        };
        for (name, change) in &overrides.releases {
            if let Some(id) = find(name) {
                approved[id as usize] = *change == Change::Added;
            }
        }
        let mut terrain = Self {
            graph,
            root: graph.find_for(ask.version, ask.arch),
            approved,
            added: vec![],
            removed: vec![],
            hold: overrides.hold,
            pointer: graph.pointer(ask.channel, ask.arch),
        };
        for ((from, to), change) in &overrides.edges {
            let (Some(from), Some(to)) = (find(from), find(to)) else { continue };
            match change {
                Change::Removed => terrain.removed.push((from, to)),
                // An edge of an override must not lead a client round in circles either.
                Change::Added if from == to || terrain.leads(to, from) => {}
                Change::Added => terrain.added.push((from, to)),
            }
        }
        Some(terrain)
    }

    fn offered(&self, id: NodeId) -> bool {
        self.approved[id as usize]
    }

    fn allowed(&self, id: NodeId) -> bool {
        self.offered(id) || Some(id) == self.root
    }

    fn plain(&self, from: NodeId) -> impl Iterator<Item = NodeId> {
        let own = self.graph.plain(from).iter().copied().filter(move |&to| self.open(from, to));
        let added = self.added.iter().filter(move |edge| edge.0 == from).map(|edge| edge.1);
        let known = move |to: &NodeId| self.graph.plain(from).contains(to);
        own.chain(added.filter(move |to| !known(to)))
    }

    fn conditional(&self, from: NodeId) -> impl Iterator<Item = &(NodeId, Risks)> {
        let own = self.graph.conditional(from).iter();
        own.filter(move |(to, _)| self.open(from, *to) && !self.added.contains(&(from, *to)))
    }

    fn open(&self, from: NodeId, to: NodeId) -> bool {
        let held = self.hold && Some(from) == self.root;
        !held && !self.removed.contains(&(from, to))
    }

    fn ways(&self, from: NodeId) -> impl Iterator<Item = NodeId> {
        self.plain(from).chain(self.conditional(from).map(|(to, _)| *to))
    }

    /// Whether edges lead there, approved or not.
    fn leads(&self, from: NodeId, to: NodeId) -> bool {
        let mut seen = vec![false; self.approved.len()];
        let mut stack = vec![from];
        while let Some(at) = stack.pop() {
            if at == to {
                return true;
            }
            let added = self.added.iter().filter(|edge| edge.0 == at).map(|edge| edge.1);
            for next in self.graph.ways(at).chain(added) {
                if !std::mem::replace(&mut seen[next as usize], true) {
                    stack.push(next);
                }
            }
        }
        false
    }

    fn forward(&self, root: NodeId) -> Vec<bool> {
        let mut reached = vec![false; self.approved.len()];
        reached[root as usize] = true;
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            for next in self.ways(at) {
                if self.allowed(next) && !std::mem::replace(&mut reached[next as usize], true) {
                    stack.push(next);
                }
            }
        }
        reached
    }

    /// The newest approved release that can be reached, and is not beyond where the channel points: the channel's
    /// target, or the nearest to it.
    fn leaf(&self, root: NodeId, reached: &[bool], ask: &Ask) -> NodeId {
        let reachable = |id: &NodeId| reached[*id as usize];
        let short_of =
            |id: NodeId| self.pointer.is_none_or(|pointer| self.graph.node(id).name.version <= *pointer);
        let mut ids = (0..self.approved.len() as NodeId).filter(|&id| self.offered(id) && short_of(id));
        if ask.narrowed {
            let all = (0..self.approved.len() as NodeId).filter(reachable);
            let mut ends = all.filter(|&id| !self.ways(id).any(|to| reached[to as usize]));
            if let (Some(only), None) = (ends.next(), ends.next()) {
                return only;
            }
        }
        ids.rfind(reachable).unwrap_or(root)
    }

    /// Of what was reached, all from which there is a way to `leaf`.
    fn backward(&self, leaf: NodeId, reached: &[bool]) -> Vec<bool> {
        let mut incoming: Vec<Vec<NodeId>> = vec![vec![]; reached.len()];
        for from in (0..reached.len() as NodeId).filter(|&id| reached[id as usize]) {
            for to in self.ways(from).filter(|&to| reached[to as usize]) {
                incoming[to as usize].push(from);
            }
        }
        let mut arriving = vec![false; reached.len()];
        arriving[leaf as usize] = true;
        let mut stack = vec![leaf];
        while let Some(at) = stack.pop() {
            for &from in &incoming[at as usize] {
                if !std::mem::replace(&mut arriving[from as usize], true) {
                    stack.push(from);
                }
            }
        }
        arriving
    }

    fn show(&self, shown: impl Fn(NodeId) -> bool) -> View {
        let nodes: Vec<NodeId> = (0..self.approved.len() as NodeId).filter(|&id| shown(id)).collect();
        let position = |id: NodeId| nodes.binary_search(&id).ok().map(|at| at as u32);
        let mut view = View::default();
        let mut groups: BTreeMap<&Risks, Vec<(u32, u32)>> = BTreeMap::new();
        for (at, &from) in (0..).zip(&nodes) {
            let mut plain: Vec<u32> = self.plain(from).filter_map(position).collect();
            plain.sort_unstable();
            view.edges.extend(plain.into_iter().map(|to| (at, to)));
            for (to, risks) in self.conditional(from) {
                if let Some(to) = position(*to) {
                    groups.entry(risks).or_default().push((at, to));
                }
            }
        }
        let group = |(risks, edges): (&Risks, _)| ConditionalGroup { edges, risks: risks.clone() };
        view.conditional = groups.into_iter().map(group).collect();
        view.nodes = nodes;
        view
    }
}
