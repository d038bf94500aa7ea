//! What a graph offers to a machine that runs one of its releases.

use std::collections::BTreeMap;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::risk::{Risks, Weighed, weigh};
use crate::graph::data::Risk;
use crate::graph::document::{Document, DocumentEdge, PAYLOAD_KIND, Payload, VERSION};
use crate::graph::labels::RELEASE_CHANNELS;
use crate::graph::release::ReleaseName;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGraph {
    #[error("it is a graph of version {0}, and this program reads up to {VERSION}")]
    Version(u32),
    #[error("the running release {0} is not in it")]
    NotInGraph(Version),
    #[error("the running release {0} is in it more than once")]
    Twice(Version),
}

/// Where the machine may go in one step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    pub version: Version,
    /// By digest.
    pub image: String,
    pub standing: Standing,
    /// Every risk of the way there, and what is known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<Weighed>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    Recommended,
    /// A risk of it concerns this machine, or nobody knows.
    NotRecommended,
    /// This machine rolled back from it.
    RolledBack,
    /// A graph may lead back; the machine's data does not follow.
    Older,
    /// The graph does not say which bytes it is.
    NoDigest,
}

impl Standing {
    /// Why it is not taken, in words.
    pub fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Recommended => None,
            Self::NotRecommended => Some("it is not recommended here"),
            Self::RolledBack => Some("this machine rolled back from it"),
            Self::Older => Some("it is older than the running release"),
            Self::NoDigest => Some("the graph does not name its image by digest"),
        }
    }
}

/// Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers(pub Vec<Offer>);

impl Offers {
    /// What an automatic machine takes.
    pub fn newest(&self) -> Option<&Offer> {
        self.0.iter().find(|offer| offer.standing == Standing::Recommended)
    }

    pub fn get(&self, version: &Version) -> Option<&Offer> {
        self.0.iter().find(|offer| offer.version == *version)
    }
}

/// Everything one step away. An edge that is both plain and conditional counts as conditional: a risk that was declared is
/// not undone by declaring the edge twice.
pub fn offers(
    graph: &Document,
    running: &Version,
    rolled_back: &[String],
    known: &Risks,
) -> Result<Offers, BadGraph> {
    if graph.version > VERSION {
        return Err(BadGraph::Version(graph.version));
    }
    let here = position(graph, running)?;
    let mut ways: BTreeMap<usize, Vec<&Risk>> = BTreeMap::new();
    for (_, to) in graph.edges.iter().filter(|(from, _)| usize::try_from(*from) == Ok(here)) {
        if let Ok(to) = usize::try_from(*to) {
            ways.entry(to).or_default();
        }
    }
    for group in &graph.conditional_edges {
        for edge in &group.edges {
            let (Ok(from), Ok(to)) = (ReleaseName::parse(&edge.from), ReleaseName::parse(&edge.to)) else {
                continue;
            };
            if from.version == *running
                && let Ok(to) = position(graph, &to.version)
            {
                ways.entry(to).or_default().extend(&group.risks);
            }
        }
    }
    let mut offers: Vec<Offer> = ways
        .into_iter()
        .filter(|(to, _)| *to != here)
        .filter_map(|(to, risks)| offer(graph, to, running, rolled_back, known, &risks))
        .collect();
    offers.sort_by(|a, b| b.version.cmp(&a.version));
    Ok(Offers(offers))
}

/// The risks of every step that leads away from here: what is worth asking about.
pub fn risks_from<'a>(graph: &'a Document, running: &'a Version) -> impl Iterator<Item = &'a Risk> {
    let from_here =
        |edge: &DocumentEdge| ReleaseName::parse(&edge.from).is_ok_and(|name| name.version == *running);
    let groups = graph.conditional_edges.iter().filter(move |group| group.edges.iter().any(from_here));
    groups.flat_map(|group| &group.risks)
}

/// The channels of the running release, where the graph tells them and the one that is followed is none of them: that nothing
/// is offered has this reason.
pub fn other_channels<'a>(graph: &'a Document, running: &Version, channel: &str) -> Option<&'a str> {
    let node = graph.nodes.get(position(graph, running).ok()?)?;
    let known = node.metadata.get(RELEASE_CHANNELS)?;
    (!known.split(',').any(|name| name.trim() == channel)).then_some(known)
}

fn position(graph: &Document, version: &Version) -> Result<usize, BadGraph> {
    let is_it = |text: &str| ReleaseName::parse(text).is_ok_and(|name| name.version == *version);
    let mut found = graph.nodes.iter().enumerate().filter(|(_, node)| is_it(&node.version));
    match (found.next(), found.next()) {
        (Some((position, _)), None) => Ok(position),
        (None, _) => Err(BadGraph::NotInGraph(version.clone())),
        _ => Err(BadGraph::Twice(version.clone())),
    }
}

fn offer(
    graph: &Document,
    to: usize,
    running: &Version,
    rolled_back: &[String],
    known: &Risks,
    risks: &[&Risk],
) -> Option<Offer> {
    let node = graph.nodes.get(to)?;
    let version = ReleaseName::parse(&node.version).ok()?.version;
    let image = match &node.payload {
        Payload::Image(image) => image.clone(),
        Payload::Document { kind, image } if kind == PAYLOAD_KIND => image.clone(),
        Payload::Document { .. } => String::new(),
    };
    let digest = digest(&image);
    let risks: Vec<Weighed> = risks.iter().map(|risk| weigh(risk, known)).collect();
    let standing = if version <= *running {
        Standing::Older
    } else if digest.is_none() {
        Standing::NoDigest
    } else if rolled_back.iter().any(|known| Some(known.as_str()) == digest || *known == version.to_string())
    {
        Standing::RolledBack
    } else if risks.iter().any(|risk| risk.verdict.is_in_the_way()) {
        Standing::NotRecommended
    } else {
        Standing::Recommended
    };
    Some(Offer { version, image, standing, risks, metadata: node.metadata.clone() })
}

/// `sha256:…` at the end of a reference.
fn digest(image: &str) -> Option<&str> {
    let (_, digest) = image.rsplit_once('@')?;
    let (algorithm, digits) = digest.split_once(':')?;
    let length = match algorithm {
        "sha256" => 64,
        "sha512" => 128,
        _ => return None,
    };
    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == length && digits.bytes().all(hexadecimal)).then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::risk::Known;
    use crate::graph::data::{MatchingRule, PromQl};
    use crate::graph::document::{DocumentNode, DocumentRisks};

    fn image(number: u8) -> String {
        format!("registry.example/releases@sha256:{}", format!("{number:02x}").repeat(32))
    }

    fn graph(versions: &[&str], edges: &[(u64, u64)]) -> Document {
        let node = |(number, version): (usize, &&str)| DocumentNode {
            version: (*version).to_owned(),
            payload: Payload::Image(image(u8::try_from(number).unwrap())),
            metadata: BTreeMap::new(),
        };
        Document {
            version: 1,
            nodes: versions.iter().enumerate().map(node).collect(),
            edges: edges.to_vec(),
            conditional_edges: vec![],
        }
    }

    fn risk(kind: &str, query: Option<&str>) -> Risk {
        Risk {
            url: "https://example.com/risk".to_owned(),
            name: "Fan".to_owned(),
            message: "the fan stops".to_owned(),
            matching_rules: vec![MatchingRule {
                kind: kind.to_owned(),
                promql: query.map(|query| PromQl { promql: query.to_owned() }),
            }],
        }
    }

    fn conditional(graph: &mut Document, from: &str, to: &str, risks: Vec<Risk>) {
        let edges = vec![DocumentEdge { from: from.to_owned(), to: to.to_owned() }];
        graph.conditional_edges.push(DocumentRisks { edges, risks });
    }

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn standings(graph: &Document, known: &Risks) -> Vec<(String, Standing)> {
        let offers = offers(graph, &version("1.0.0"), &[], known).unwrap();
        offers.0.iter().map(|offer| (offer.version.to_string(), offer.standing)).collect()
    }

    #[test]
    fn the_newest_release_one_step_away_is_taken() {
        let graph = graph(&["1.0.0", "1.1.0", "1.3.0", "1.4.0"], &[(0, 1), (0, 2), (1, 2), (2, 3)]);
        let offers = offers(&graph, &version("1.0.0"), &[], &Risks::default()).unwrap();
        assert_eq!(offers.newest().unwrap().version, version("1.3.0"));
        assert_eq!(offers.0.len(), 2);
    }

    #[test]
    fn an_edge_that_is_plain_and_conditional_is_conditional() {
        let mut graph = graph(&["1.0.0", "1.1.0"], &[(0, 1)]);
        conditional(&mut graph, "1.0.0", "1.1.0", vec![risk("Always", None)]);
        assert_eq!(standings(&graph, &Risks::default()), [("1.1.0".to_owned(), Standing::NotRecommended)]);
    }

    #[test]
    fn a_risk_that_nobody_knows_of_is_a_risk_and_one_that_does_not_apply_is_none() {
        let mut graph = graph(&["1.0.0", "1.1.0"], &[]);
        conditional(&mut graph, "1.0.0", "1.1.0", vec![risk("PromQL", Some("fans"))]);
        assert_eq!(standings(&graph, &Risks::default())[0].1, Standing::NotRecommended);
        let mut known = Risks::default();
        known.learn("fans", Known::Fine, 0);
        assert_eq!(standings(&graph, &known)[0].1, Standing::Recommended);
        conditional(&mut graph, "1.0.0", "1.1.0", vec![risk("FromTheFuture", None)]);
        assert_eq!(standings(&graph, &known)[0].1, Standing::NotRecommended);
    }

    #[test]
    fn what_is_older_or_without_a_digest_is_shown_and_never_taken() {
        let mut graph = graph(&["1.0.0", "0.9.0", "1.1.0"], &[(0, 1), (0, 2)]);
        graph.nodes[2].payload = Payload::Image("registry.example/releases:1.1.0".to_owned());
        assert_eq!(
            standings(&graph, &Risks::default()),
            [("1.1.0".to_owned(), Standing::NoDigest), ("0.9.0".to_owned(), Standing::Older)]
        );
    }

    #[test]
    fn what_was_rolled_back_from_is_not_taken_again_but_its_repair_is() {
        let mut graph = graph(&["1.0.0", "1.1.0"], &[(0, 1)]);
        let digest = image(1).rsplit_once('@').unwrap().1.to_owned();
        let rolled_back = [digest];
        let standing = |graph: &Document| {
            let offers = offers(graph, &version("1.0.0"), &rolled_back, &Risks::default()).unwrap();
            offers.0[0].standing
        };
        assert_eq!(standing(&graph), Standing::RolledBack);
        graph.nodes[1].payload = Payload::Image(image(9));
        assert_eq!(standing(&graph), Standing::Recommended);
        // What came by other hands is known by its version only.
        let by_version = offers(&graph, &version("1.0.0"), &["1.1.0".to_owned()], &Risks::default());
        assert_eq!(by_version.unwrap().0[0].standing, Standing::RolledBack);
    }

    #[test]
    fn a_graph_that_can_not_be_read_offers_nothing() {
        let ask = |graph: &Document| offers(graph, &version("1.0.0"), &[], &Risks::default());
        assert_eq!(ask(&graph(&["2.0.0"], &[])), Err(BadGraph::NotInGraph(version("1.0.0"))));
        assert_eq!(ask(&graph(&["1.0.0", "1.0.0"], &[])), Err(BadGraph::Twice(version("1.0.0"))));
        let newer = Document { version: 9, ..graph(&["1.0.0"], &[]) };
        assert_eq!(ask(&newer), Err(BadGraph::Version(9)));
        // Edges to nowhere, and to itself.
        assert_eq!(ask(&graph(&["1.0.0"], &[(0, 7), (0, 0)])), Ok(Offers::default()));
    }
}
