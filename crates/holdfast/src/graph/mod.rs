//! `holdfast graph …`: arguments in, the part's functions called, results shown.

mod views;

use std::net::SocketAddr;
use std::path::PathBuf;

use ::graph::picture::{self, Picture};
use ::graph::settings::{Role, Settings, TlsSettings};
use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::graph::document::Document;
use logic::graph::path::Path;
use logic::graph::{Arch, Ask, Graph, Notes, Overrides, ReleaseName, arch_of, view};
use logic::period::Period;
use semver::Version;

use self::views::{ChannelView, Channels, DiffView, NoteList, PathView, Whole};
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};
use crate::output::{self, Format};

#[derive(Debug, Args)]
pub struct GraphCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Look for releases, build the graph, and serve to each client what it may see of it
    Serve(Box<Serve>),
    /// Build the graph once and print it
    Build {
        #[command(flatten)]
        inputs: Inputs,
    },
    /// Find every mistake in graph data, before it is published
    Check {
        /// A directory with channels/, blocked-edges/ and the rest
        dir: PathBuf,
    },
    /// Show all channels, or one of them: as a table, or as a picture with -o dot, mermaid or svg
    Show {
        #[command(flatten)]
        inputs: Inputs,
        #[command(flatten)]
        client: Client,
        /// Only what a client on this version sees
        #[arg(long, value_name = "VERSION")]
        version: Option<Version>,
        /// In pictures, draw edges too that others imply
        #[arg(long)]
        all_edges: bool,
    },
    /// Say how to get from one release to another, and if there is no way, what is in it
    Path {
        /// The release to come from, as 4.16.14 or 4.16.14+arm64
        #[arg(value_parser = parse_release)]
        from: ReleaseName,
        /// The release to get to
        #[arg(value_parser = parse_release)]
        to: ReleaseName,
        #[command(flatten)]
        inputs: Inputs,
        #[command(flatten)]
        client: Client,
    },
    /// Say what is different between two graphs
    Diff {
        /// A graph as JSON (a file or a URL), or a source
        before: String,
        /// The other one
        after: String,
    },
}

/// Where releases and decisions about them come from.
#[derive(Debug, Clone, Args)]
struct Inputs {
    /// registry:https://HOST/REPO, registry:http://HOST/REPO, oci:DIR, or graph:FILE-or-URL; may be given again
    #[arg(long, value_name = "SRC")]
    source: Vec<String>,
    /// DIR, git+URL[#BRANCH] or image:REF
    #[arg(long, value_name = "DATA")]
    graph_data: Option<String>,
    /// OpenPGP public keys; a graph-data image must then be signed by one of them; may be given again
    #[arg(long, value_name = "FILE")]
    graph_data_key: Vec<PathBuf>,
    /// Where those signatures are, as sha256=DIGEST/signature-N: a directory, or a URL
    #[arg(long, value_name = "PLACE")]
    graph_data_signatures: Option<String>,
    /// Keep what was fetched here
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Client {
    /// Only what is approved for it
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    /// The only one there is, or amd64, unless given
    #[arg(long, value_name = "ARCH", value_parser = parse_arch)]
    arch: Option<Arch>,
}

#[derive(Debug, Clone, Args)]
struct Serve {
    #[command(flatten)]
    inputs: Inputs,
    /// Where clients ask
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where /livez, /readyz and /metrics are; with the rest, unless given
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Ask this graph service, with the client's parameters, instead of building a graph
    #[arg(long, value_name = "URL", conflicts_with = "source")]
    upstream: Option<String>,
    /// Serve the whole graph to everybody, for services that are chained onto this one
    #[arg(long)]
    builder: bool,
    /// Serve below this path
    #[arg(long, value_name = "PATH")]
    path_prefix: Option<String>,
    /// PEM certificates, the server's first
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Who owns which id, and what holds for owners, ids and the whole fleet
    #[arg(long, value_name = "FILE")]
    owners: Option<PathBuf>,
    /// A directory of signatures to serve
    #[arg(long, value_name = "DIR")]
    signatures_dir: Option<PathBuf>,
    /// How often to look for releases and graph data
    #[arg(long, value_name = "TIME")]
    interval: Option<Period>,
    /// Serve without TLS beyond this machine: something in front of the service speaks it
    #[arg(long)]
    plain_http: bool,
    /// How to write the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

fn parse_release(text: &str) -> Result<ReleaseName, String> {
    ReleaseName::parse(text).map_err(|error| error.to_string())
}

fn parse_arch(text: &str) -> Result<Arch, String> {
    Arch::parse(text).map_err(|error| error.to_string())
}

impl Inputs {
    fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = config::load(global.config.as_deref())?.config.graph;
        if !self.source.is_empty() {
            settings.sources = self.source.iter().cloned().map(Into::into).collect();
        }
        if let Some(data) = &self.graph_data {
            settings.graph_data = Some(data.clone());
        }
        if !self.graph_data_key.is_empty() {
            settings.graph_data_keys.clone_from(&self.graph_data_key);
        }
        if let Some(place) = &self.graph_data_signatures {
            settings.graph_data_signatures = Some(place.clone());
        }
        if let Some(dir) = &self.cache_dir {
            settings.cache_dir.clone_from(dir);
        }
        Ok(settings)
    }

    /// One look at the sources. What is wrong goes to stderr; the rest goes on.
    fn graph(&self, global: &Global) -> Result<Graph> {
        let (graph, notes) = ::graph::look(&self.settings(global)?)?;
        tell(&notes, global);
        Ok(graph)
    }
}

impl Serve {
    fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = self.inputs.settings(global)?;
        if let Some(listen) = self.listen {
            settings.listen = listen;
        }
        if let Some(url) = &self.upstream {
            settings.upstream = Some(url.clone());
            settings.sources.clear();
        }
        if self.builder {
            settings.role = Role::Builder;
        }
        if let Some(prefix) = &self.path_prefix {
            settings.path_prefix.clone_from(prefix);
        }
        if let (Some(certificates), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) {
            settings.tls = Some(TlsSettings { certificates, key });
        }
        if let Some(interval) = self.interval {
            settings.interval = interval;
        }
        settings.plain_http |= self.plain_http;
        settings.admin = self.admin.or(settings.admin);
        settings.owners.file = self.owners.clone().or(settings.owners.file);
        settings.signatures_dir = self.signatures_dir.clone().or(settings.signatures_dir);
        Ok(settings)
    }
}

impl Serve {
    fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.settings(global)?;
        log::start(self.log_format);
        // The same flags over the files as they are then.
        let (again, global) = (self.clone(), global.clone());
        ::graph::run(settings, move || again.settings(&global).map_err(|failure| failure.error))?;
        Ok(Exit::Done)
    }
}

impl GraphCommand {
    pub fn has_pictures(&self) -> bool {
        matches!(self.verb, Verb::Show { .. })
    }

    pub fn run(&self, global: &Global) -> Result<Exit> {
        match &self.verb {
            Verb::Serve(serve) => serve.run(global),
            Verb::Build { inputs } => build(&inputs.graph(global)?, global.output),
            Verb::Check { dir } => check(dir, global.output),
            Verb::Show { inputs, client, version, all_edges } => {
                show(&inputs.graph(global)?, client, version.as_ref(), *all_edges, global.output)
            }
            Verb::Path { from, to, inputs, client } => {
                let graph = inputs.graph(global)?;
                let arch = client.arch.clone().or_else(|| from.arch.clone()).or_else(|| to.arch.clone());
                let arch = arch_of(&graph, arch, None);
                let channel = client.channel.as_deref();
                channel.map(|channel| known_channel(&graph, channel)).transpose()?;
                let path =
                    logic::graph::path::path(&graph, &from.version, &to.version, channel, arch.as_ref());
                let found = matches!(path, Path::Here | Path::Way { .. });
                output::show(&PathView(path), global.output)?;
                Ok(if found { Exit::Done } else { Exit::NotFound })
            }
            Verb::Diff { before, after } => {
                let graph = |what: &String| {
                    let mut settings = config::load(global.config.as_deref())?.config.graph;
                    let known = ["registry:", "oci:", "graph:"].iter().any(|kind| what.starts_with(kind));
                    let address = if known { what.clone() } else { format!("graph:{what}") };
                    (settings.sources, settings.graph_data) = (vec![address.into()], None);
                    Ok::<_, Failure>(::graph::look(&settings)?.0)
                };
                let difference = logic::graph::diff::diff(&graph(before)?, &graph(after)?);
                output::show(&DiffView(difference), global.output)?;
                Ok(Exit::Done)
            }
        }
    }
}

/// Exit code 4 with any error, so that a pipeline stops; warnings are shown and let pass.
fn check(dir: &std::path::Path, format: Format) -> Result<Exit> {
    let notes = ::graph::data::check(dir);
    output::show(&NoteList::of(&notes), format)?;
    Ok(if notes.has_errors() { Exit::Refused } else { Exit::Done })
}

fn build(graph: &Graph, format: Format) -> Result<Exit> {
    let whole = Whole(Document::of(graph));
    let unprintable =
        |error: &dyn std::error::Error| Failure::new(Exit::Unexpected, error, "this is a defect");
    match format {
        // What clients read, and `--source graph:` takes: no wrapping.
        Format::Json => {
            output::print(
                &(serde_json::to_string_pretty(&whole).map_err(|error| unprintable(&error))? + "\n"),
            );
        }
        Format::Yaml => {
            let value = serde_json::to_value(&whole).map_err(|error| unprintable(&error))?;
            output::print(&serde_saphyr::to_string(&value).map_err(|error| unprintable(&error))?);
        }
        Format::Name => {
            graph.nodes().iter().for_each(|node| output::print(&format!("{}\n", node.name)));
        }
        Format::Table | Format::Wide => output::print(&Whole::table(graph, format == Format::Wide)),
        Format::Dot | Format::Mermaid | Format::Svg => return Err(output::no_picture()),
    }
    Ok(Exit::Done)
}

fn show(
    graph: &Graph,
    client: &Client,
    version: Option<&Version>,
    all_edges: bool,
    format: Format,
) -> Result<Exit> {
    let pictured = format.is_picture();
    let Some(channel) = client.channel.as_deref() else {
        if pictured || version.is_some() {
            let channels: Vec<&str> = graph.channels().into_iter().map(AsRef::as_ref).collect();
            let hint = format!("give --channel: {}", channels.join(", "));
            return Err(Failure::usage("no channel was given", hint));
        }
        output::show(&Channels::of(graph, client.arch.as_ref()), format)?;
        return Ok(Exit::Done);
    };
    known_channel(graph, channel)?;
    let arch = arch_of(graph, client.arch.clone(), None);
    let any = Version::new(0, 0, 0);
    let ask = Ask {
        version: version.unwrap_or(&any),
        channel,
        arch: arch.as_ref(),
        whole_channel: version.is_none(),
        narrowed: false,
    };
    let seen = view(graph, &ask, &Overrides::default());
    if seen.nodes.is_empty() {
        let arches: Vec<&str> = graph.architectures().into_iter().map(Arch::as_str).collect();
        let release =
            version.map(|version| format!(", or there is no release {version}")).unwrap_or_default();
        return Err(not_found(format!("nothing of {channel} is for this architecture{release}"), &arches));
    }
    if !pictured {
        output::show(&ChannelView::of(graph, &seen, channel, arch.as_ref()), format)?;
        return Ok(Exit::Done);
    }
    let title = match (&arch, version) {
        (Some(arch), Some(version)) => format!("{channel}, {arch}, from {version}"),
        (Some(arch), None) => format!("{channel}, {arch}"),
        (None, Some(version)) => format!("{channel}, from {version}"),
        (None, None) => channel.to_owned(),
    };
    let target = graph.channel_target(channel, arch.as_ref());
    let picture = Picture::new(title, graph, &seen, target, all_edges);
    output::print(&match format {
        Format::Dot => picture::dot(&picture),
        Format::Mermaid => picture::mermaid(&picture),
        _ => picture::svg(&picture),
    });
    Ok(Exit::Done)
}

fn known_channel(graph: &Graph, channel: &str) -> Result<()> {
    let channels: Vec<&str> = graph.channels().into_iter().map(AsRef::as_ref).collect();
    match channels.contains(&channel) {
        true => Ok(()),
        false => Err(not_found(format!("there is no channel {channel}"), &channels)),
    }
}

fn not_found(error: String, there_are: &[&str]) -> Failure {
    let hint = format!("there are {}", there_are.join(", "));
    Failure { exit: Exit::NotFound, error, causes: vec![], hint }
}

/// What was found wrong goes to stderr: errors first, and no more than anybody reads.
fn tell(notes: &Notes, global: &Global) {
    const SHOWN: usize = 50;
    if global.quiet {
        return;
    }
    // Their order begins with the severity.
    notes.iter().take(SHOWN).for_each(|note| eprintln!("{note}"));
    if notes.len() > SHOWN {
        eprintln!("… and {} more", notes.len() - SHOWN + notes.left_out);
    }
}
