//! A client that goes round in circles never arrives: the edge that closes a cycle goes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::graph::model::{Graph, NodeId, Removed};
use crate::graph::note::{Notes, Place};

/// Edges that lead to a newer release can't form a cycle by themselves. So those that lead back are looked at one by
/// one, in order, and each that can be reached again from where it leads is the one that closes a cycle. What is dropped
/// depends on nothing but the cycle itself.
pub(super) fn cut(graph: &mut Graph, notes: &mut Notes) {
    let mut backwards: Vec<(NodeId, NodeId)> = Vec::new();
    for from in 0..graph.nodes.len() as NodeId {
        backwards.extend(graph.ways(from).filter(|&to| to <= from).map(|to| (from, to)));
    }
    backwards.sort_unstable();
    // Without them all; then each comes back, unless it closes a cycle.
    let mut kept: Vec<Vec<NodeId>> = (0..graph.nodes.len() as NodeId)
        .map(|from| graph.ways(from).filter(|&to| to > from).collect())
        .collect();
    for (from, to) in backwards {
        match way(&kept, to, from) {
            None => kept[from as usize].push(to),
            Some(cycle) => {
                drop_edge(graph, from, to);
                let name = |id: NodeId| graph.nodes[id as usize].name.to_string();
                let around: Vec<String> = cycle.into_iter().map(name).collect();
                let text = format!(
                    "cycle: {} → {}; the edge {} → {} closes it and is dropped",
                    around.join(" → "),
                    name(to),
                    name(from),
                    name(to)
                );
                let place = Place::Release(name(from));
                let cause = Removed {
                    place: place.clone(),
                    text: format!("it closes a cycle over {}", around.join(", ")),
                };
                graph.removed.insert((from, to), Arc::new(cause));
                notes.error("cycle", place, text);
            }
        }
    }
}

fn drop_edge(graph: &mut Graph, from: NodeId, to: NodeId) {
    graph.plain[from as usize].retain(|&other| other != to);
    graph.conditional[from as usize].retain(|(other, _)| *other != to);
}

/// A shortest way, with both ends.
fn way(edges: &[Vec<NodeId>], from: NodeId, to: NodeId) -> Option<Vec<NodeId>> {
    if from == to {
        return Some(vec![from]);
    }
    let mut came_from: Vec<Option<NodeId>> = vec![None; edges.len()];
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for &next in &edges[at as usize] {
            if next == from || came_from[next as usize].is_some() {
                continue;
            }
            came_from[next as usize] = Some(at);
            if next == to {
                let back = std::iter::successors(Some(to), |&id| came_from[id as usize]);
                let mut whole: Vec<NodeId> = back.collect();
                whole.reverse();
                return Some(whole);
            }
            queue.push_back(next);
        }
    }
    None
}
