//! The command line: nouns of the parts, verbs below them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use logic::exit::Exit;

use crate::agent::AgentCommand;
use crate::appliance::ApplianceCommand;
use crate::config;
use crate::failure::{Failure, Result};
use crate::graph::GraphCommand;
use crate::guard::GuardCommand;
use crate::image::{ImageCommand, ImageManagerCommand};
use crate::migrate::MigrateCommand;
use crate::output::{self, Format};
use crate::storage::StorageCommand;
use crate::up::UpCommand;
use crate::upgrade::UpgradeCommand;
use crate::volume::VolumeCommand;

/// Safe updates of machines that carry state.
#[derive(Debug, Parser)]
#[command(name = "holdfast", version, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Read this file instead of /usr/lib/holdfast/*.toml and /etc/holdfast/*.toml
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub config: Option<PathBuf>,
    /// How to print the result
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    pub output: Format,
    /// Print nothing but the result and errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Write progress as JSON lines to this file descriptor
    #[arg(long, global = true, value_name = "N", help_heading = "Global options")]
    pub progress_fd: Option<i32>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow a graph: find the update that this machine may take, check it, and apply it
    Agent(Box<AgentCommand>),
    /// Appliances of this machine: make, look at, start, stop, configure and remove them
    Appliance(Box<ApplianceCommand>),
    /// Which release may go where: build the update graph, look at it, serve it
    Graph(Box<GraphCommand>),
    /// Keep a device's data fit for whatever boots next
    #[command(alias = "admin")]
    Guard(Box<GuardCommand>),
    /// Bring each image to a site once, and spread it from disk to disk
    Image(Box<ImageCommand>),
    /// Look after the images of one disk
    ImageManager(Box<ImageManagerCommand>),
    /// Bring data from one version to the next: see the path, walk it, write a migration
    Migrate(Box<MigrateCommand>),
    /// Rewrite Kubernetes objects when their storage version changes, and say when it is safe to move
    Storage(Box<StorageCommand>),
    /// Move an appliance to a release, as a transaction; or one step back; or on where it was interrupted
    Upgrade(Box<UpgradeCommand>),
    /// Disks for machines, each an overlay on an image of a site
    Volume(Box<VolumeCommand>),
    /// All parts on this machine, in the foreground, with one log
    Up(Box<UpCommand>),
    /// Check or print the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// What is known about this machine, over all parts
    Status(Box<crate::guard::Facts>),
    /// Print a completion script
    Completion { shell: clap_complete::Shell },
    /// Print the version
    Version,
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man { dir: PathBuf },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say whether the configuration can be understood
    Check,
    /// Print every key with the value in force
    Show,
}

impl Cli {
    pub fn run(self) -> Result<Exit> {
        // Before anything is done, since a command that acts must not fail afterwards for the want of a picture.
        let pictured = matches!(&self.command, Command::Graph(command) if command.has_pictures());
        if self.global.output.is_picture() && !pictured {
            return Err(output::no_picture());
        }
        match self.command {
            Command::Agent(command) => command.run(&self.global),
            Command::Appliance(command) => command.run(&self.global),
            Command::Graph(command) => command.run(&self.global),
            Command::Guard(command) => command.run(&self.global),
            Command::Image(command) => command.run(&self.global),
            Command::Volume(command) => command.run(&self.global),
            Command::ImageManager(command) => command.run(&self.global),
            Command::Migrate(command) => command.run(&self.global),
            Command::Storage(command) => command.run(&self.global),
            Command::Upgrade(command) => command.run(&self.global),
            Command::Up(command) => command.run(&self.global),
            Command::Status(facts) => crate::status::run(&facts, &self.global),
            Command::Config(command) => run_config(&command, &self.global),
            Command::Completion { shell } => {
                let mut script = vec![];
                clap_complete::generate(shell, &mut Self::command(), "holdfast", &mut script);
                output::print(&String::from_utf8_lossy(&script));
                Ok(Exit::Done)
            }
            Command::Version => {
                output::print(&format!("holdfast {}\n", env!("CARGO_PKG_VERSION")));
                Ok(Exit::Done)
            }
            Command::Man { dir } => {
                clap_mangen::generate_to(Self::command(), &dir).map_err(|error| {
                    Failure::new(Exit::Unexpected, &error, format!("see that {} exists", dir.display()))
                })?;
                Ok(Exit::Done)
            }
        }
    }
}

fn run_config(command: &ConfigCommand, global: &Global) -> Result<Exit> {
    let loaded = config::load(global.config.as_deref())?;
    loaded.config.guard.validate()?;
    loaded.config.storage.validate().map_err(|error| Failure::usage(error, ""))?;
    match command {
        ConfigCommand::Check => {
            let files: Vec<String> = loaded.files.iter().map(|file| file.display().to_string()).collect();
            let sources: Vec<String> = files.into_iter().chain(loaded.variables).collect();
            match sources.is_empty() {
                true => output::print("no configuration: the defaults are in force\n"),
                false => output::print(&format!("understood: {}\n", sources.join(", "))),
            }
        }
        ConfigCommand::Show => {
            let text = toml::to_string_pretty(&loaded.config)
                .map_err(|error| Failure::new(Exit::Unexpected, &error, "this is a defect"))?;
            output::print(&text);
        }
    }
    Ok(Exit::Done)
}

/// The document says `microshift pre-run`, `microshift run`, `microshift healthcheck` as well as `microshift admin …`:
/// the same verbs work here without their noun.
pub fn with_document_spellings(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    const VERBS: [&str; 5] =
        ["pre-run", "run", "healthcheck", "persist-system-health", "mark-deploy-as-healthy"];
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.get(1).is_some_and(|first| VERBS.iter().any(|verb| first == verb)) {
        arguments.insert(1, "guard".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_documents_spellings_are_understood() {
        for words in [
            "holdfast admin pre-run --dry-run",
            "holdfast pre-run",
            "holdfast run -- true",
            "holdfast healthcheck --timeout 10s",
            "holdfast admin persist-system-health --healthy",
            "holdfast persist-system-health --unhealthy",
            "holdfast admin mark-deploy-as-healthy rhel-d1 --reason fixed",
        ] {
            let arguments = with_document_spellings(words.split(' ').map(OsString::from));
            assert!(Cli::try_parse_from(arguments).is_ok(), "{words}");
        }
    }
}
