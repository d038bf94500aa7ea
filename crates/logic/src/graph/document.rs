//! The graph as it crosses the wire: the shape that clients of the Cincinnati protocol read and write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::build::{ConditionalEdge, Harvest};
use super::data::Risk;
use super::labels;
use super::model::Graph;
use super::note::Place;
use super::release::{Arch, Origin, Release, ReleaseName};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Document {
    /// Of the shape; older services leave it out.
    #[serde(default)]
    pub version: u32,
    pub nodes: Vec<DocumentNode>,
    pub edges: Vec<(u64, u64)>,
    #[serde(default, rename = "conditionalEdges")]
    pub conditional_edges: Vec<DocumentRisks>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentNode {
    pub version: String,
    #[serde(default)]
    pub payload: Payload,
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// An image by digest, or a document that names one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Payload {
    Image(String),
    Document { kind: String, image: String },
}

/// The kind of payload document that is understood.
pub const PAYLOAD_KIND: &str = "update.openshift.io/v0";

impl Default for Payload {
    fn default() -> Self {
        Self::Image(String::new())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentRisks {
    pub edges: Vec<DocumentEdge>,
    pub risks: Vec<Risk>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DocumentEdge {
    pub from: String,
    pub to: String,
}

/// The shape's version that is written, and the newest that is read.
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is a graph of version {0}, and this program reads up to {VERSION}")]
pub struct UnknownVersion(u32);

impl Document {
    /// As what a source found. What is wrong in it is noted and left out; the rest is used.
    pub fn harvest(self, source: usize) -> Result<Harvest, UnknownVersion> {
        if self.version > VERSION {
            return Err(UnknownVersion(self.version));
        }
        let mut harvest = Harvest::default();
        let mut names = Vec::with_capacity(self.nodes.len());
        for (position, node) in self.nodes.into_iter().enumerate() {
            let place = || Place::Release(format!("node {position} ({})", node.version));
            let name = match name_of(&node) {
                Ok(name) => name,
                Err(why) => {
                    harvest.notes.error("bad-node", place(), why);
                    names.push(None);
                    continue;
                }
            };
            let payload = match node.payload {
                Payload::Image(image) => image,
                Payload::Document { kind, image } if kind == PAYLOAD_KIND => image,
                Payload::Document { kind, .. } => {
                    harvest.notes.error("bad-node", place(), format!("payload of an unknown kind {kind:?}"));
                    names.push(None);
                    continue;
                }
            };
            names.push(Some(name.clone()));
            let digest = payload.rsplit_once('@').map_or("", |(_, digest)| digest).to_owned();
            harvest.releases.push(Release {
                name,
                payload,
                metadata: node.metadata,
                previous: vec![],
                next: vec![],
                origin: Origin { source, tag: format!("{position:08}"), digest },
            });
        }
        let at = |position: u64| usize::try_from(position).ok().and_then(|position| names.get(position));
        for (from, to) in self.edges {
            match (at(from), at(to)) {
                (Some(Some(from)), Some(Some(to))) => harvest.edges.push((from.clone(), to.clone())),
                (Some(_), Some(_)) => {} // of a node that is already noted
                _ => harvest.notes.error(
                    "bad-edge",
                    Place::Whole,
                    format!("edge [{from}, {to}] is out of range: there are {} nodes", names.len()),
                ),
            }
        }
        for entry in self.conditional_edges {
            for edge in entry.edges {
                match (ReleaseName::parse(&edge.from), ReleaseName::parse(&edge.to)) {
                    (Ok(from), Ok(to)) => {
                        harvest.conditional.push(ConditionalEdge { from, to, risks: entry.risks.clone() });
                    }
                    (Err(error), _) | (_, Err(error)) => {
                        harvest.notes.error("bad-edge", Place::Whole, format!("conditional edge: {error}"));
                    }
                }
            }
        }
        Ok(harvest)
    }

    /// A whole graph, with architectures in the versions.
    pub fn of(graph: &Graph) -> Self {
        let name = |id| graph.node(id).name.to_string();
        let ids = || 0..graph.nodes().len() as u32;
        let mut groups: BTreeMap<&[Risk], Vec<DocumentEdge>> = BTreeMap::new();
        for from in ids() {
            for (to, risks) in graph.conditional(from) {
                let edge = DocumentEdge { from: name(from), to: name(*to) };
                groups.entry(risks).or_default().push(edge);
            }
        }
        let nodes = graph.nodes().iter().map(|node| DocumentNode {
            version: node.name.to_string(),
            payload: Payload::Image(node.payload.clone()),
            metadata: node.metadata.clone(),
        });
        let edges = ids().flat_map(|from| graph.plain(from).iter().map(move |&to| (from.into(), to.into())));
        let groups = groups.into_iter();
        Self {
            version: VERSION,
            nodes: nodes.collect(),
            edges: edges.collect(),
            conditional_edges: groups
                .map(|(risks, edges)| DocumentRisks { edges, risks: risks.to_vec() })
                .collect(),
        }
    }
}

fn name_of(node: &DocumentNode) -> Result<ReleaseName, String> {
    let name = ReleaseName::parse(&node.version).map_err(|error| error.to_string())?;
    let labelled = match node.metadata.get(labels::RELEASE_ARCH) {
        Some(arch) => Some(Arch::parse(arch).map_err(|error| error.to_string())?),
        None => None,
    };
    Ok(name.or_arch(labelled.as_ref()))
}
