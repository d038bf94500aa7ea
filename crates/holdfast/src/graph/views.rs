//! How graphs, ways, differences and notes are shown.

use logic::graph::diff::{Difference, Offer};
use logic::graph::document::Document;
use logic::graph::path::{Hindrance, Hop, Path};
use logic::graph::{Arch, Graph, Notes, View};
use serde::Serialize;

use crate::output::{Show, table};

/// All channels at a glance.
#[derive(Serialize)]
pub struct Channels {
    channels: Vec<ChannelLine>,
}

#[derive(Serialize)]
struct ChannelLine {
    name: String,
    arch: Option<Arch>,
    releases: usize,
    target: Option<String>,
}

impl Channels {
    /// A line for each channel and architecture, or those of one architecture.
    pub fn of(graph: &Graph, only: Option<&Arch>) -> Self {
        let mut arches: Vec<Option<Arch>> = graph.nodes().iter().map(|node| node.name.arch.clone()).collect();
        arches.sort();
        arches.dedup();
        let mut channels = Vec::new();
        for name in graph.channels() {
            for arch in arches.iter().filter(|arch| only.is_none() || arch.as_ref() == only) {
                let approved = |node: &&logic::graph::model::Node| {
                    node.name.arch == *arch && node.channels.contains(name)
                };
                let releases = graph.nodes().iter().filter(approved).count();
                if releases > 0 {
                    let target = target(graph, name, arch.as_ref());
                    channels.push(ChannelLine {
                        name: name.to_string(),
                        arch: arch.clone(),
                        releases,
                        target,
                    });
                }
            }
        }
        Self { channels }
    }
}

/// What a channel leads to.
fn target(graph: &Graph, channel: &str, arch: Option<&Arch>) -> Option<String> {
    let id = graph.channel_target(channel, arch)?;
    Some(graph.node(id).name.version.to_string())
}

impl Show for Channels {
    const KIND: &'static str = "ChannelList";

    fn table(&self, _wide: bool) -> String {
        let row = |line: &ChannelLine| {
            let arch = line.arch.as_ref().map_or("any", Arch::as_str).to_owned();
            let target = line.target.clone().unwrap_or_default();
            vec![line.name.clone(), arch, line.releases.to_string(), target]
        };
        table(
            &["CHANNEL", "ARCH", "RELEASES", "LEADS TO"],
            &self.channels.iter().map(row).collect::<Vec<_>>(),
        )
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.channels.iter().map(|line| line.name.clone()).collect();
        names.dedup();
        names
    }
}

/// One channel, or what one client sees of it.
#[derive(Serialize)]
pub struct ChannelView {
    channel: String,
    arch: Option<Arch>,
    releases: Vec<ReleaseLine>,
}

#[derive(Serialize)]
struct ReleaseLine {
    version: String,
    payload: String,
    /// Reached from how many.
    #[serde(rename = "from")]
    previous: Vec<String>,
    /// Reached from these only by weighing risks.
    #[serde(rename = "conditionalFrom")]
    conditional: Vec<ConditionalFrom>,
    target: bool,
}

#[derive(Serialize)]
struct ConditionalFrom {
    version: String,
    risks: Vec<String>,
}

impl ChannelView {
    pub fn of(graph: &Graph, view: &View, channel: &str, arch: Option<&Arch>) -> Self {
        let leads_to = target(graph, channel, arch);
        let version = |at: u32| graph.node(view.nodes[at as usize]).name.version.to_string();
        let line = |(at, &id): (u32, &u32)| ReleaseLine {
            version: version(at),
            payload: graph.node(id).payload.clone(),
            previous: view.edges.iter().filter(|edge| edge.1 == at).map(|edge| version(edge.0)).collect(),
            conditional: view
                .conditional
                .iter()
                .flat_map(|group| group.edges.iter().map(move |edge| (edge, &group.risks)))
                .filter(|(edge, _)| edge.1 == at)
                .map(|(edge, risks)| ConditionalFrom {
                    version: version(edge.0),
                    risks: risks.iter().map(|risk| risk.name.clone()).collect(),
                })
                .collect(),
            target: leads_to.as_ref() == Some(&version(at)),
        };
        let releases = (0..).zip(&view.nodes).map(line).collect();
        Self { channel: channel.to_owned(), arch: arch.cloned(), releases }
    }
}

impl Show for ChannelView {
    const KIND: &'static str = "Channel";

    fn table(&self, wide: bool) -> String {
        let row = |line: &ReleaseLine| {
            let risks: std::collections::BTreeSet<&str> =
                line.conditional.iter().flat_map(|from| from.risks.iter().map(String::as_str)).collect();
            let mut from = line.previous.len().to_string();
            if !line.conditional.is_empty() {
                from += &format!(" +{} with risks", line.conditional.len());
            }
            let version = if line.target { format!("{} *", line.version) } else { line.version.clone() };
            let mut row = vec![version, from, risks.into_iter().collect::<Vec<_>>().join(", ")];
            if wide {
                row.push(line.payload.clone());
            }
            row
        };
        let header = ["RELEASE", "REACHED FROM", "RISKS", "PAYLOAD"];
        let rows: Vec<_> = self.releases.iter().map(row).collect();
        table(&header[..if wide { 4 } else { 3 }], &rows)
    }

    fn names(&self) -> Vec<String> {
        self.releases.iter().map(|line| line.version.clone()).collect()
    }
}

/// A whole graph, in the shape that clients read.
#[derive(Serialize)]
#[serde(transparent)]
pub struct Whole(pub Document);

impl Whole {
    /// A line a release, for people.
    pub fn table(graph: &Graph, wide: bool) -> String {
        let mut incoming = vec![(0usize, 0usize); graph.nodes().len()];
        for from in 0..graph.nodes().len() as u32 {
            graph.plain(from).iter().for_each(|&to| incoming[to as usize].0 += 1);
            graph.conditional(from).iter().for_each(|(to, _)| incoming[*to as usize].1 += 1);
        }
        let rows: Vec<Vec<String>> = graph
            .nodes()
            .iter()
            .zip(incoming)
            .map(|(node, (plain, conditional))| {
                let channels: Vec<&str> = node.channels.iter().map(AsRef::as_ref).collect();
                let mut row = vec![
                    node.name.to_string(),
                    plain.to_string(),
                    conditional.to_string(),
                    channels.join(","),
                ];
                if wide {
                    row.push(node.payload.clone());
                }
                row
            })
            .collect();
        let header = ["RELEASE", "EDGES IN", "CONDITIONAL", "CHANNELS", "PAYLOAD"];
        table(&header[..if wide { 5 } else { 4 }], &rows)
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct PathView(pub Path);

impl Show for PathView {
    const KIND: &'static str = "Path";

    fn table(&self, _wide: bool) -> String {
        match &self.0 {
            Path::Here => "already there\n".to_owned(),
            Path::Way { hops } => hop_lines(hops),
            Path::Hindered { hops, hindrances } => {
                let mut text = "no way. It would be\n".to_owned() + &hop_lines(hops) + "but for\n";
                for hindrance in hindrances {
                    text += &format!("  {}\n", spelled(hindrance));
                }
                text
            }
            Path::None { newest: Some(newest) } => {
                format!("no way, and none was ever declared; the newest within reach is {newest}\n")
            }
            Path::None { newest: None } => {
                "no way, and none was ever declared; nothing is within reach\n".to_owned()
            }
            Path::Unknown { release } => format!("no release {release} is known\n"),
        }
    }

    fn names(&self) -> Vec<String> {
        match &self.0 {
            Path::Way { hops } => hops.iter().map(|hop| hop.to.to_string()).collect(),
            _ => vec![],
        }
    }
}

fn hop_lines(hops: &[Hop]) -> String {
    let line = |hop: &Hop| match hop.risks.is_empty() {
        true => format!("  {} → {}\n", hop.from, hop.to),
        false => format!("  {} → {}   risks to weigh: {}\n", hop.from, hop.to, hop.risks.join(", ")),
    };
    hops.iter().map(line).collect()
}

fn spelled(hindrance: &Hindrance) -> String {
    match hindrance {
        Hindrance::NotApproved { release, channel, approved_for } if approved_for.is_empty() => {
            format!("{release} is not approved for {channel}, nor for any other channel")
        }
        Hindrance::NotApproved { release, channel, approved_for } => {
            format!("{release} is not approved for {channel}, only for {}", approved_for.join(", "))
        }
        Hindrance::Removed { from, to, by, why } => format!("{from} → {to} was taken away by {by}: {why}"),
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct DiffView(pub Difference);

impl Show for DiffView {
    const KIND: &'static str = "GraphDiff";

    fn table(&self, _wide: bool) -> String {
        let mut text = String::new();
        for name in &self.0.added_releases {
            text += &format!("+ {name}\n");
        }
        for name in &self.0.removed_releases {
            text += &format!("- {name}\n");
        }
        for changed in &self.0.changed_releases {
            text += &format!("~ {}\n", changed.release);
            for value in &changed.what {
                let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
                text += &format!("    {}: {} → {}\n", value.key, shown(&value.before), shown(&value.after));
            }
        }
        for edge in &self.0.edges {
            let sign = match (&edge.before, &edge.after) {
                (Offer::Not, _) => '+',
                (_, Offer::Not) => '-',
                _ => '~',
            };
            text += &format!("{sign} {} → {}{}\n", edge.from, edge.to, offers(&edge.before, &edge.after));
        }
        if text.is_empty() { "no difference\n".to_owned() } else { text }
    }

    fn names(&self) -> Vec<String> {
        let releases = self.0.added_releases.iter().chain(&self.0.removed_releases);
        releases
            .chain(self.0.changed_releases.iter().map(|changed| &changed.release))
            .map(ToString::to_string)
            .collect()
    }
}

fn offers(before: &Offer, after: &Offer) -> String {
    let risks = |offer: &Offer| match offer {
        Offer::Conditional(risks) => format!("conditional ({})", risks.join(", ")),
        Offer::Plain => "plain".to_owned(),
        Offer::Not => "none".to_owned(),
    };
    match (before, after) {
        (Offer::Not, Offer::Plain) | (Offer::Plain, Offer::Not) => String::new(),
        (Offer::Not, offer) | (offer, Offer::Not) => format!("   {}", risks(offer)),
        (before, after) => format!("   {} → {}", risks(before), risks(after)),
    }
}

/// What is wrong, each with its place.
#[derive(Serialize)]
pub struct NoteList {
    notes: Vec<logic::graph::Note>,
}

impl NoteList {
    pub fn of(notes: &Notes) -> Self {
        Self { notes: notes.iter().cloned().collect() }
    }
}

impl Show for NoteList {
    const KIND: &'static str = "NoteList";

    fn table(&self, _wide: bool) -> String {
        self.notes.iter().map(|note| format!("{note}\n")).collect()
    }

    fn names(&self) -> Vec<String> {
        self.notes.iter().map(|note| note.place.to_string()).collect()
    }
}
