//! Edges while they are being decided: which exist, under which risks, and what took the others away.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use regex::Regex;

use super::ConditionalEdge;
use super::nodes::unknown;
use crate::graph::data::{Block, Risk};
use crate::graph::labels;
use crate::graph::model::{Node, NodeId, Removed, Risks};
use crate::graph::note::{Notes, Place};
use crate::graph::release::{Release, ReleaseName};

type Pair = (NodeId, NodeId);
pub(super) type Finished = (Vec<Vec<NodeId>>, Vec<Vec<(NodeId, Risks)>>, BTreeMap<Pair, Arc<Removed>>);

pub(super) struct Edges<'a> {
    nodes: &'a [Node],
    /// Each node's name as patterns see it.
    names: Vec<String>,
    by_name: HashMap<&'a ReleaseName, NodeId>,
    by_version: HashMap<&'a semver::Version, Vec<NodeId>>,
    /// By target node.
    incoming: Vec<BTreeSet<NodeId>>,
    conditional: BTreeMap<Pair, BTreeSet<Risk>>,
    removed: BTreeMap<Pair, Arc<Removed>>,
}

impl<'a> Edges<'a> {
    pub fn new(nodes: &'a [Node]) -> Self {
        let ids = 0..nodes.len() as NodeId;
        let mut by_version: HashMap<_, Vec<NodeId>> = HashMap::new();
        for (node, id) in nodes.iter().zip(ids.clone()) {
            by_version.entry(&node.name.version).or_default().push(id);
        }
        Self {
            nodes,
            names: nodes.iter().map(|node| node.name.to_string()).collect(),
            by_name: nodes.iter().map(|node| &node.name).zip(ids).collect(),
            by_version,
            incoming: vec![BTreeSet::new(); nodes.len()],
            conditional: BTreeMap::new(),
            removed: BTreeMap::new(),
        }
    }

    /// What releases say of their neighbours. `releases` are those of the nodes, in the same order.
    pub fn declare(&mut self, releases: &[Release], notes: &mut Notes) {
        for (release, id) in releases.iter().zip(0..) {
            for from in self.resolve(id, release.previous.iter().map(String::as_str), "previous", notes) {
                self.insert(from, id);
            }
            for to in self.resolve(id, release.next.iter().map(String::as_str), "next", notes) {
                self.insert(id, to);
            }
        }
    }

    pub fn adopt(
        &mut self,
        plain: &[(ReleaseName, ReleaseName)],
        conditional: &[ConditionalEdge],
        notes: &mut Notes,
    ) {
        for (from, to) in plain {
            // Both ends were nodes of the same document; one that is gone was removed on purpose.
            if let (Some(&from), Some(&to)) = (self.by_name.get(from), self.by_name.get(to)) {
                self.insert(from, to);
            }
        }
        for edge in conditional {
            let (froms, tos) = (self.meant(&edge.from), self.meant(&edge.to));
            for (name, found) in [(&edge.from, &froms), (&edge.to, &tos)] {
                if found.is_empty() {
                    unknown(notes, Place::Release(name.to_string()), name);
                }
            }
            if edge.risks.is_empty() {
                // A risk that nobody states can't be weighed, and an edge with one must not be offered without it.
                let text = format!("conditional edge {} → {} states no risk; skipped", edge.from, edge.to);
                notes.error("bad-edge", Place::Release(edge.to.to_string()), text);
                continue;
            }
            for (from, to) in pairs(&froms, &tos) {
                if self.arch(from) == self.arch(to) {
                    self.insert(from, to);
                    self.conditional.entry((from, to)).or_default().extend(edge.risks.iter().cloned());
                }
            }
        }
    }

    pub fn add_labelled(&mut self, notes: &mut Notes) {
        for (id, list) in self.labelled(labels::PREVIOUS_ADD) {
            for from in self.resolve(id, labels::entries(list), labels::PREVIOUS_ADD, notes) {
                self.insert(from, id);
            }
        }
        for (id, list) in self.labelled(labels::NEXT_ADD) {
            for to in self.resolve(id, labels::entries(list), labels::NEXT_ADD, notes) {
                self.insert(id, to);
            }
        }
    }

    pub fn condition(&mut self, blocks: &[Block], notes: &mut Notes) {
        for block in blocks {
            let targets = self.meant(&block.to);
            if targets.is_empty() {
                unknown(notes, block.place.clone(), &block.to);
            }
            let Some(risk) = &block.risk else { continue };
            for to in targets {
                for from in self.matching(to, &block.from) {
                    self.conditional.entry((from, to)).or_default().insert(risk.clone());
                }
            }
        }
    }

    /// Plain edges only: a service that a graph came from keeps the label beside the conditional edges that it made.
    pub fn remove_labelled(&mut self, notes: &mut Notes) {
        for (id, list) in self.labelled(labels::PREVIOUS_REMOVE) {
            let cause = self.by_label(id, labels::PREVIOUS_REMOVE, list);
            let froms: Vec<NodeId> = match list.trim() {
                "*" => self.incoming[id as usize].iter().copied().collect(),
                list => self.resolve(id, labels::entries(list), labels::PREVIOUS_REMOVE, notes),
            };
            froms.into_iter().for_each(|from| self.remove_plain(from, id, &cause));
        }
        for (id, pattern) in self.labelled(labels::PREVIOUS_REMOVE_REGEX) {
            let cause = self.by_label(id, labels::PREVIOUS_REMOVE_REGEX, pattern);
            match Regex::new(pattern) {
                Ok(regex) => {
                    let froms = self.matching(id, &regex);
                    froms.into_iter().for_each(|from| self.remove_plain(from, id, &cause));
                }
                Err(error) => {
                    let text = format!("{}: {error}", labels::PREVIOUS_REMOVE_REGEX);
                    notes.error("bad-label", Place::Release(self.names[id as usize].clone()), text);
                }
            }
        }
        for (id, list) in self.labelled(labels::NEXT_REMOVE) {
            let cause = self.by_label(id, labels::NEXT_REMOVE, list);
            let tos: Vec<NodeId> = match list.trim() {
                "*" => {
                    let leaves = |to: &NodeId| self.incoming[*to as usize].contains(&id);
                    (0..self.nodes.len() as NodeId).filter(leaves).collect()
                }
                list => self.resolve(id, labels::entries(list), labels::NEXT_REMOVE, notes),
            };
            tos.into_iter().for_each(|to| self.remove_plain(id, to, &cause));
        }
    }

    pub fn block(&mut self, blocks: &[Block]) {
        for block in blocks.iter().filter(|block| block.risk.is_none()) {
            let cause = Arc::new(Removed {
                place: block.place.clone(),
                text: format!("blocked: from {:?} to {}", block.from.as_str(), block.to),
            });
            for to in self.meant(&block.to) {
                for from in self.matching(to, &block.from) {
                    self.conditional.remove(&(from, to));
                    self.remove(from, to, &cause);
                }
            }
        }
    }

    pub fn finish(self) -> Finished {
        let mut plain = vec![vec![]; self.nodes.len()];
        let mut conditional = vec![vec![]; self.nodes.len()];
        let mut shared: BTreeMap<BTreeSet<Risk>, Risks> = BTreeMap::new();
        for (to, froms) in (0..).zip(&self.incoming) {
            for &from in froms {
                match self.conditional.get(&(from, to)) {
                    None => plain[from as usize].push(to),
                    Some(risks) => {
                        if !shared.contains_key(risks) {
                            shared.insert(risks.clone(), risks.iter().cloned().collect());
                        }
                        conditional[from as usize].push((to, Arc::clone(&shared[risks])));
                    }
                }
            }
        }
        (plain, conditional, self.removed)
    }

    fn insert(&mut self, from: NodeId, to: NodeId) {
        self.incoming[to as usize].insert(from);
    }

    fn remove(&mut self, from: NodeId, to: NodeId, cause: &Arc<Removed>) {
        if self.incoming[to as usize].remove(&from) {
            self.removed.entry((from, to)).or_insert_with(|| Arc::clone(cause));
        }
    }

    fn remove_plain(&mut self, from: NodeId, to: NodeId, cause: &Arc<Removed>) {
        if !self.conditional.contains_key(&(from, to)) {
            self.remove(from, to, cause);
        }
    }

    fn arch(&self, id: NodeId) -> Option<&crate::graph::release::Arch> {
        self.nodes[id as usize].name.arch.as_ref()
    }

    /// The nodes of a name: all architectures, where it names none.
    fn meant(&self, name: &ReleaseName) -> Vec<NodeId> {
        let ids = self.by_version.get(&name.version).map_or(&[][..], Vec::as_slice);
        ids.iter().copied().filter(|&id| name.arch.is_none() || self.arch(id) == name.arch.as_ref()).collect()
    }

    /// Where edges into `to` come from that a pattern matches.
    fn matching(&self, to: NodeId, pattern: &Regex) -> Vec<NodeId> {
        let froms = self.incoming[to as usize].iter().copied();
        froms.filter(|&from| pattern.is_match(&self.names[from as usize])).collect()
    }

    fn labelled(&self, key: &str) -> Vec<(NodeId, &'a str)> {
        let nodes = (0..).zip(self.nodes);
        nodes.filter_map(|(id, node)| Some((id, node.metadata.get(key)?.as_str()))).collect()
    }

    fn by_label(&self, id: NodeId, key: &str, value: &str) -> Arc<Removed> {
        let place = Place::Release(self.names[id as usize].clone());
        Arc::new(Removed { place, text: format!("label {key} is {value:?}") })
    }

    /// Versions as a node writes them: of its own architecture. What is not known is noted and skipped.
    fn resolve<'t>(
        &self,
        id: NodeId,
        versions: impl Iterator<Item = &'t str>,
        what: &str,
        notes: &mut Notes,
    ) -> Vec<NodeId> {
        let mut found = Vec::new();
        for text in versions {
            let place = || Place::Release(self.names[id as usize].clone());
            let name = match ReleaseName::parse(text) {
                Ok(name) => name.or_arch(self.arch(id)),
                Err(error) => {
                    notes.error("bad-version", place(), format!("{what}: {error}"));
                    continue;
                }
            };
            match self.by_name.get(&name) {
                _ if name.arch.as_ref() != self.arch(id) => {
                    let text = format!("{what} names {name}, of another architecture; skipped");
                    notes.error("bad-version", place(), text);
                }
                Some(&other) => found.push(other),
                None => notes.warning(
                    "unknown-version",
                    place(),
                    format!("{what} names {name}, which is not known; skipped"),
                ),
            }
        }
        found
    }
}

fn pairs(froms: &[NodeId], tos: &[NodeId]) -> Vec<Pair> {
    froms.iter().flat_map(|&from| tos.iter().map(move |&to| (from, to))).collect()
}
