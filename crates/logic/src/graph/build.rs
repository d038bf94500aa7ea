//! From releases and graph data to one graph.
//!
//! The order of the steps is the meaning of the labels, so it stands in one place, [`build`]:
//!
//! 1. labels of graph data join those of the releases; releases that are to be removed go
//! 2. edges: what releases say of their neighbours, ready-made edges, `previous.add`, `next.add`
//! 3. conditional edges, from the edges that exist now; a conditional edge is no longer a plain one
//! 4. removal: `previous.remove`, `previous.remove_regex`, `next.remove` take plain edges away; a plain block takes
//!    away conditional ones too, since a block must hold
//! 5. cycles are cut

mod cycles;
mod edges;
mod nodes;

use super::data::{GraphData, Risk};
use super::model::Graph;
use super::note::Notes;
use super::release::{Release, ReleaseName};
use edges::Edges;

/// What sources found.
#[derive(Debug, Clone, Default)]
pub struct Harvest {
    pub releases: Vec<Release>,
    /// Of graphs that came ready-made.
    pub edges: Vec<(ReleaseName, ReleaseName)>,
    pub conditional: Vec<ConditionalEdge>,
    pub notes: Notes,
}

impl Harvest {
    pub fn extend(&mut self, other: Harvest) {
        self.releases.extend(other.releases);
        self.edges.extend(other.edges);
        self.conditional.extend(other.conditional);
        self.notes.extend(other.notes);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalEdge {
    pub from: ReleaseName,
    pub to: ReleaseName,
    pub risks: Vec<Risk>,
}

/// Whatever order things come in, the same graph and the same notes come out.
pub fn build(harvest: Harvest, data: &GraphData) -> (Graph, Notes) {
    let Harvest { releases, edges: ready_made, conditional, mut notes } = harvest;
    let releases = nodes::choose(releases, &mut notes);
    let releases = nodes::label(releases, &data.raw, &mut notes);
    let nodes = nodes::approve(&releases, &data.channels, &mut notes);

    let mut edges = Edges::new(&nodes);
    edges.declare(&releases, &mut notes);
    edges.adopt(&ready_made, &conditional, &mut notes);
    edges.add_labelled(&mut notes);
    edges.condition(&data.blocks, &mut notes);
    edges.remove_labelled(&mut notes);
    edges.block(&data.blocks);
    let (plain, conditional, removed) = edges.finish();

    let targets = nodes::targets(&data.channels, &nodes, &mut notes);
    let mut graph = Graph { nodes, plain, conditional, removed, targets };
    cycles::cut(&mut graph, &mut notes);
    notes.sort();
    (graph, notes)
}
