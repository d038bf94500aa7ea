//! `holdfast agent …`: the client of a graph, on this machine.

mod begin;
mod cluster;
pub mod gate;
mod host;
mod install;
mod itself;
mod request;
mod run;
mod site;
mod views;

use std::path::PathBuf;

use ::agent::desk::{Files, What, Wishes};
use ::agent::settings::Settings;
use clap::{Args, Subcommand, ValueEnum};
use logic::agent::PAUSED;
use logic::exit::Exit;
use semver::Version;

use self::install::Install;
use self::run::Run;
pub use self::views::Status;
use self::views::{Answered, History, InForce};
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, Show};

#[derive(Debug, Args)]
pub struct AgentCommand {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

/// Which agent is meant.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Books, wishes and the quarantine of the agent
    #[arg(long, global = true, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl Place {
    pub fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = config::load(global.config.as_deref())?.config.agent;
        if let Some(state) = &self.state {
            settings.directory.clone_from(state);
        }
        // What is in quarantine is named by others, too.
        settings.directory = std::path::absolute(&settings.directory)
            .map_err(|error| Failure::new(Exit::Usage, &error, "give the agent's directory with --state"))?;
        Ok(settings)
    }
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Follow the graph: find, check and apply updates
    Run(Run),
    /// Show what runs, what is on offer, and what is under way
    Status,
    /// Ask the graph now, and show what it offers
    Check,
    /// Move to a release that the graph offers, or to one that was carried in
    Update(Update),
    /// Let no update begin until `resume`
    Pause {
        /// Why, for those who wonder
        reason: Vec<String>,
    },
    /// Let updates begin again
    Resume,
    /// Show what came of updates
    History,
    /// One step back: to the release of before, with the data of then; what is left is not taken again by itself
    Rollback,
    /// Change what the agent follows, while it runs
    Set(Set),
    /// Take back what was set: the configuration holds again
    Unset {
        /// What to take back
        #[arg(required = true, value_name = "NAME")]
        names: Vec<Setting>,
    },
    /// Install the agent of a cluster: the resource ClusterVersion, an account, and the agent itself
    Install(Install),
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["to", "from", "clear"])))]
struct Update {
    /// A release that the graph offers
    #[arg(long, value_name = "VERSION", value_parser = version)]
    to: Option<Version>,
    /// An image that was carried in: an OCI layout, DIR or DIR:TAG
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    /// Call off what has not begun yet: what is being fetched, or waits
    #[arg(long)]
    clear: bool,
    /// Although it is not recommended here, or this machine rolled back from it
    #[arg(long, requires = "to")]
    anyway: bool,
    /// Pass over a precondition, by its name; may be given again
    #[arg(long, value_name = "NAME")]
    force: Vec<String>,
    /// Leave it to the agent that runs
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Set {
    /// The channel to follow
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// The graph service
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    /// Whether the newest recommended release is taken without being asked
    #[arg(long, value_name = "true|false", num_args = 0..=1, default_missing_value = "true")]
    automatic: Option<bool>,
}

/// What `set` goes over.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Setting {
    Channel,
    Upstream,
    Automatic,
}

impl Setting {
    fn take_back(self, wishes: &mut Wishes) {
        match self {
            Self::Channel => wishes.channel = None,
            Self::Upstream => wishes.upstream = None,
            Self::Automatic => wishes.automatic = None,
        }
    }
}

impl AgentCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.place.settings(global)?;
        let desk = Files::at(&settings.directory);
        match &self.verb {
            Verb::Run(run) => run.run(settings, global),
            Verb::Status => show(&settings, global),
            Verb::Check => {
                request::carry_out(&settings, What::Look, true, global)?;
                show(&settings, global)
            }
            Verb::Update(update) => {
                let answered = request::carry_out(&settings, update.what()?, !update.no_wait, global)?;
                answer(&answered, global)
            }
            Verb::Rollback => answer(&request::carry_out(&settings, What::RollBack, true, global)?, global),
            Verb::Pause { reason } => {
                let reason = reason.join(" ");
                let wishes = desk.wish(|wishes| wishes.paused = Some(reason))?;
                tell(Some("updates are paused"), &InForce::of(&settings, wishes), global)
            }
            Verb::Resume => {
                let wishes = desk.wish(|wishes| wishes.paused = None)?;
                tell(Some("updates may begin"), &InForce::of(&settings, wishes), global)
            }
            Verb::History => {
                output::show(&History { attempts: desk.read_books()?.history }, global.output)?;
                Ok(Exit::Done)
            }
            Verb::Set(set) => set.run(&settings, global),
            Verb::Unset { names } => {
                let wishes = desk.wish(|wishes| names.iter().for_each(|name| name.take_back(wishes)))?;
                tell(Some("the configuration holds again"), &InForce::of(&settings, wishes), global)
            }
            Verb::Install(install) => install.run(global),
        }
    }
}

impl Update {
    fn what(&self) -> Result<What> {
        let forced = self.force.clone();
        if forced.iter().any(|name| name == PAUSED) {
            return Err(Failure::usage("a pause is not passed over", "`holdfast agent resume` ends it"));
        }
        if self.clear {
            return Ok(What::Clear);
        }
        match (&self.to, &self.from) {
            (Some(to), _) => Ok(What::Update { to: to.clone(), anyway: self.anyway, forced }),
            (None, Some(from)) => Ok(What::From { image: layout(from)?, forced }),
            (None, None) => Err(Failure::usage("no release is named", "give --to or --from")),
        }
    }
}

/// As tags are often written, too.
fn version(text: &str) -> std::result::Result<Version, semver::Error> {
    Version::parse(text.strip_prefix('v').unwrap_or(text))
}

/// `DIR`, `DIR:TAG`, with or without `oci:` before it; the agent may run in another directory.
fn layout(path: &str) -> Result<String> {
    let path = path.strip_prefix("oci:").unwrap_or(path);
    let (directory, tag) = match path.rsplit_once(':') {
        Some((directory, tag)) if !tag.contains('/') && !PathBuf::from(path).is_dir() => {
            (directory, Some(tag))
        }
        _ => (path, None),
    };
    let directory = std::fs::canonicalize(directory).map_err(|error| Failure {
        exit: Exit::NotFound,
        error: format!("{directory}: {error}"),
        causes: vec![],
        hint: "give the directory of an OCI layout: it has a file index.json".to_owned(),
    })?;
    let directory = directory.display();
    Ok(tag.map_or_else(|| format!("oci:{directory}"), |tag| format!("oci:{directory}:{tag}")))
}

impl Set {
    fn run(&self, settings: &Settings, global: &Global) -> Result<Exit> {
        if let Some(upstream) = &self.upstream
            && !(upstream.starts_with("https://") || upstream.starts_with("http://"))
        {
            let hint = "write it like https://graph.example.com";
            return Err(Failure::usage(format!("{upstream:?} is not the address of a graph service"), hint));
        }
        let wishes = Files::at(&settings.directory).wish(|wishes| {
            wishes.channel = self.channel.clone().or(wishes.channel.take());
            wishes.upstream = self.upstream.clone().or(wishes.upstream.take());
            wishes.automatic = self.automatic.or(wishes.automatic);
        })?;
        tell(Some("set"), &InForce::of(settings, wishes), global)
    }
}

fn answer(answered: &Answered, global: &Global) -> Result<Exit> {
    tell(answered.line().as_deref(), answered, global)
}

/// A line for people, a document for programs: whoever asks for one gets it, and nothing but it.
fn tell(line: Option<&str>, document: &impl Show, global: &Global) -> Result<Exit> {
    match (global.output, line) {
        (Format::Table | Format::Wide, Some(line)) => say(global, line),
        (Format::Table | Format::Wide, None) => {}
        (format, _) => output::show(document, format)?,
    }
    Ok(Exit::Done)
}

fn say(global: &Global, text: &str) {
    if !global.quiet {
        eprintln!("{text}");
    }
}

/// What is known of the agent of this machine.
pub fn status(settings: &Settings, upgrade: &::upgrade::settings::Settings) -> Result<Status> {
    let desk = Files::at(&settings.directory);
    let mut news = desk.read_news()?;
    // Where no agent runs, or since it last looked, others may have moved the machine.
    if let Some(running) = begin::running(settings, upgrade) {
        news.running = Some(running);
    }
    Ok(Status::of(settings, desk.is_running(), &desk.read_books()?, desk.read_wishes()?, news))
}

fn show(settings: &Settings, global: &Global) -> Result<Exit> {
    let upgrade = config::load(global.config.as_deref())?.config.upgrade;
    output::show(&status(settings, &upgrade)?, global.output)?;
    Ok(Exit::Done)
}

impl From<::agent::desk::DeskError> for Failure {
    fn from(error: ::agent::desk::DeskError) -> Self {
        Self { exit: Exit::MetadataDamaged, error: error.why, causes: vec![], hint: error.way_out }
    }
}

impl From<::agent::RunError> for Failure {
    fn from(error: ::agent::RunError) -> Self {
        Self::new(Exit::Unexpected, &error, error.way_out())
    }
}
