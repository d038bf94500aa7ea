//! Small words for building graphs in tests.

use std::collections::BTreeMap;

use logic::graph::data::{Block, Channel, MatchingRule, RawLabels, Risk};
use logic::graph::release::Origin;
use logic::graph::{
    Arch, Ask, Graph, GraphData, Harvest, Notes, Overrides, Place, Release, ReleaseName, View, build, view,
};
use regex::Regex;

pub fn name(text: &str) -> ReleaseName {
    ReleaseName::parse(text).unwrap()
}

/// Releases and graph data, before they become a graph.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub harvest: Harvest,
    pub data: GraphData,
}

impl World {
    /// `4.1.0+amd64`, and the versions it lists under `previous`.
    pub fn release(mut self, version: &str, previous: &[&str]) -> Self {
        let name = name(version);
        // What differs has another digest.
        let digest = format!("sha256:{version}:{}", previous.join(":"));
        self.harvest.releases.push(Release {
            payload: format!("registry.example/releases@{digest}"),
            metadata: BTreeMap::new(),
            previous: previous.iter().map(|&text| text.to_owned()).collect(),
            next: vec![],
            origin: Origin { source: 0, tag: format!("{:03}", self.harvest.releases.len()), digest },
            name,
        });
        self
    }

    pub fn chain(self, versions: &[&str]) -> Self {
        let mut world = self.release(versions[0], &[]);
        for pair in versions.windows(2) {
            world = world.release(pair[1], &[pair[0]]);
        }
        world
    }

    /// A label of the release added last.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let key = format!("io.openshift.upgrades.graph.{key}");
        self.harvest.releases.last_mut().unwrap().metadata.insert(key, value.to_owned());
        self
    }

    pub fn raw(mut self, version: &str, key: &str, value: &str) -> Self {
        let labels = [(format!("io.openshift.upgrades.graph.{key}"), value.to_owned())].into();
        self.data.raw.push(RawLabels { release: name(version), labels, place: file("raw/metadata.json") });
        self
    }

    pub fn channel(mut self, channel: &str, versions: &[&str]) -> Self {
        let place = file(&format!("channels/{channel}.yaml"));
        let versions = versions.iter().map(|version| (name(version), place.clone())).collect();
        self.data.channels.push(Channel { name: channel.to_owned(), versions, target: None, place });
        self
    }

    /// What the channel added last points at.
    pub fn target(mut self, version: &str) -> Self {
        let channel = self.data.channels.last_mut().unwrap();
        channel.target = Some((name(version), channel.place.clone()));
        self
    }

    pub fn block(mut self, to: &str, from: &str) -> Self {
        let place = file(&format!("blocked-edges/{to}-{}.yaml", self.data.blocks.len()));
        self.data.blocks.push(Block { to: name(to), from: Regex::new(from).unwrap(), risk: None, place });
        self
    }

    pub fn risk(mut self, to: &str, from: &str, risk: &str) -> Self {
        self = self.block(to, from);
        self.data.blocks.last_mut().unwrap().risk = Some(a_risk(risk));
        self
    }

    pub fn build(self) -> (Graph, Notes) {
        build(self.harvest, &self.data)
    }

    pub fn graph(self) -> Graph {
        self.build().0
    }
}

pub fn a_risk(name: &str) -> Risk {
    Risk {
        url: format!("https://example.test/{name}"),
        name: name.to_owned(),
        message: format!("{name} may happen"),
        matching_rules: vec![MatchingRule { kind: "Always".to_owned(), promql: None }],
    }
}

fn file(path: &str) -> Place {
    Place::File { path: path.to_owned(), line: Some(1) }
}

/// `1.0.0 -> 1.1.0` for plain edges, `1.0.0 ?> 1.1.0 (Risk)` for conditional ones, in the graph's order.
pub fn edges(graph: &Graph) -> Vec<String> {
    let name = |id| graph.node(id).name.to_string();
    let mut lines = Vec::new();
    for from in 0..graph.nodes().len() as u32 {
        lines.extend(graph.plain(from).iter().map(|&to| format!("{} -> {}", name(from), name(to))));
        for (to, risks) in graph.conditional(from) {
            let risks: Vec<&str> = risks.iter().map(|risk| risk.name.as_str()).collect();
            lines.push(format!("{} ?> {} ({})", name(from), name(*to), risks.join(" ")));
        }
    }
    lines
}

pub fn codes(notes: &Notes) -> Vec<&'static str> {
    notes.iter().map(|note| note.code).collect()
}

/// What a client sees: versions, then edges.
pub fn seen(graph: &Graph, version: &str, channel: &str, arch: &str) -> (Vec<String>, Vec<String>) {
    seen_with(graph, version, channel, arch, &Overrides::default(), false)
}

pub fn seen_with(
    graph: &Graph,
    version: &str,
    channel: &str,
    arch: &str,
    overrides: &Overrides,
    whole_channel: bool,
) -> (Vec<String>, Vec<String>) {
    let (version, arch) = (semver::Version::parse(version).unwrap(), Arch::parse(arch).ok());
    let ask = Ask { version: &version, channel, arch: arch.as_ref(), whole_channel, narrowed: false };
    spell(graph, &view(graph, &ask, overrides))
}

pub fn spell(graph: &Graph, view: &View) -> (Vec<String>, Vec<String>) {
    let versions: Vec<String> =
        view.nodes.iter().map(|&id| graph.node(id).name.version.to_string()).collect();
    let at = |position: u32| &versions[position as usize];
    let mut edges: Vec<String> =
        view.edges.iter().map(|&(from, to)| format!("{} -> {}", at(from), at(to))).collect();
    for group in &view.conditional {
        edges.extend(group.edges.iter().map(|&(from, to)| format!("{} ?> {}", at(from), at(to))));
    }
    (versions, edges)
}
