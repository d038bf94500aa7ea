//! From releases and graph data to one graph.

use super::data::{GraphData, Risk};
use super::model::Graph;
use super::note::Notes;
use super::release::{Release, ReleaseName};

/// What sources found.
#[derive(Debug, Clone, Default)]
pub struct Harvest {
    pub releases: Vec<Release>,
    /// Of graphs that came ready-made.
    pub edges: Vec<(ReleaseName, ReleaseName)>,
    pub conditional: Vec<ConditionalEdge>,
    pub notes: Notes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalEdge {
    pub from: ReleaseName,
    pub to: ReleaseName,
    pub risks: Vec<Risk>,
}

pub fn build(_harvest: Harvest, _data: &GraphData) -> (Graph, Notes) {
    Default::default()
}
