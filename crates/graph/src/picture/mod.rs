//! Pictures of a channel: for Graphviz, for Mermaid, and as SVG that needs nothing else.

mod dot;
mod layout;
mod mermaid;
mod reduce;
mod svg;

use logic::graph::{Graph, NodeId, View};

pub use dot::dot;
pub use mermaid::mermaid;
pub use svg::svg;

/// What is drawn: releases, and the edges that are worth a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub title: String,
    pub releases: Vec<Drawn>,
    pub edges: Vec<Edge>,
    /// Edges that are there and not drawn, since others lead the same way.
    pub implied: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    pub version: semver::Version,
    /// What the channel leads to.
    pub target: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Positions in [`Picture::releases`].
    pub from: usize,
    pub to: usize,
    /// Names of the risks; none for a plain edge.
    pub risks: Vec<String>,
}

impl Picture {
    /// Every release can be reached from most that came before it, and a picture of all those edges shows nothing.
    /// So a plain edge is left out where other plain edges lead from its one end to the other, unless `all` is wanted.
    pub fn new(title: String, graph: &Graph, view: &View, target: Option<NodeId>, all: bool) -> Self {
        let releases = view
            .nodes
            .iter()
            .map(|&id| Drawn { version: graph.node(id).name.version.clone(), target: Some(id) == target });
        let plain: Vec<(usize, usize)> =
            view.edges.iter().map(|&(from, to)| (from as usize, to as usize)).collect();
        let kept = if all { plain.clone() } else { reduce::reduce(view.nodes.len(), &plain) };
        let implied = plain.len() - kept.len();
        let mut edges: Vec<Edge> =
            kept.into_iter().map(|(from, to)| Edge { from, to, risks: vec![] }).collect();
        for group in &view.conditional {
            let risks: Vec<String> = group.risks.iter().map(|risk| risk.name.clone()).collect();
            edges.extend(group.edges.iter().map(|&(from, to)| Edge {
                from: from as usize,
                to: to as usize,
                risks: risks.clone(),
            }));
        }
        Self { title, releases: releases.collect(), edges, implied }
    }
}

#[cfg(test)]
pub(crate) fn sample() -> Picture {
    let release = |text: &str, target| Drawn { version: semver::Version::parse(text).unwrap(), target };
    Picture {
        title: "stable <4.2> & amd64".to_owned(),
        releases: vec![
            release("4.1.0", false),
            release("4.1.1", false),
            release("4.2.0-rc.1", false),
            release("4.2.0", true),
        ],
        edges: vec![
            Edge { from: 0, to: 1, risks: vec![] },
            Edge { from: 1, to: 3, risks: vec!["Slow\"Disk".to_owned(), "Other".to_owned()] },
            Edge { from: 2, to: 3, risks: vec![] },
        ],
        implied: 2,
    }
}
