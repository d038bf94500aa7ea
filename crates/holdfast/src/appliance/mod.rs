//! `holdfast appliance …`: arguments in, the part's functions called, results shown.

pub mod values;
mod views;
pub use views::{ApplianceList, workloads};
mod workload;

use std::path::PathBuf;

use ::upgrade::commands::{self, Changes, Create};
use ::upgrade::settings::Settings;
use ::upgrade::{Appliance, BackendKind, Held, Options, names};
use clap::{Args, Subcommand, ValueEnum};
use logic::exit::Exit;
use logic::period::Period;
use logic::upgrade::{ApplianceName, ReleaseVersion};

use self::values::{KeyValue, Secret};
use self::views::ApplianceView;
use self::workload::WorkloadCommand;
use crate::bring;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output;
use crate::storage;
use crate::witness::Console;

#[derive(Debug, Args)]
pub struct ApplianceCommand {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

/// Where appliances are, and where releases come from.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Holds all appliances of this machine
    #[arg(long, global = true, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

impl Place {
    pub fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = config::load(global.config.as_deref())?.config.upgrade;
        if let Some(directory) = &self.directory {
            settings.directory.clone_from(directory);
        }
        // Links and supervisors outlive the directory that this command was run in.
        settings.directory = std::path::absolute(&settings.directory).map_err(|error| {
            Failure::new(Exit::Usage, &error, "give the directory of appliances with --directory")
        })?;
        Ok(settings)
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Backend {
    /// Processes, in releases side by side
    Slot,
    /// A virtual machine
    Vm,
    /// This host
    Ostree,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make an appliance from a release
    Create {
        name: ApplianceName,
        /// HOST/REPO:TAG, HOST/REPO@sha256:…, oci:DIR:TAG, or a directory
        #[arg(long, value_name = "REF")]
        release: String,
        #[arg(long, value_enum, default_value = "slot")]
        backend: Backend,
        #[command(flatten)]
        values: Values,
        /// Start it, too
        #[arg(long)]
        start: bool,
    },
    /// List appliances: their releases, and how their upgrades stand
    Ls {
        /// Say also which of them can be upgraded to this release
        #[arg(long, value_name = "REF")]
        release: Option<String>,
    },
    /// Show all that is known about one
    Inspect {
        name: ApplianceName,
        /// Say also whether it can be upgraded to this release
        #[arg(long, value_name = "REF")]
        release: Option<String>,
    },
    /// Start it, and wait until it is ready; finishes or undoes what was interrupted
    Start {
        #[arg(required_unless_present = "wanted")]
        name: Option<ApplianceName>,
        /// All that ran when the machine went down
        #[arg(long, conflicts_with = "name")]
        wanted: bool,
        /// To become ready in
        #[arg(long, value_name = "TIME")]
        timeout: Option<Period>,
    },
    /// Stop it; its workloads go on
    Stop {
        #[arg(required_unless_present = "all")]
        name: Option<ApplianceName>,
        /// All of them, until the machine starts again
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// Change its configuration
    Configure {
        name: ApplianceName,
        #[command(flatten)]
        values: Values,
        /// Remove a key
        #[arg(long, value_name = "KEY")]
        unset: Vec<String>,
        /// Start it again with it; if it does not become ready, the old configuration is put back
        #[arg(long)]
        restart: bool,
    },
    /// Print what it has printed; of a virtual machine, its serial line
    Log { name: ApplianceName },
    /// Remove it, with its data
    Rm {
        name: ApplianceName,
        /// Although it runs or has workloads
        #[arg(long)]
        force: bool,
    },
    /// What an appliance owns and leaves alone in upgrades
    Workload(WorkloadCommand),
    /// Run and watch what is in a directory; started by others
    #[command(hide = true)]
    Supervise { directory: PathBuf },
}

#[derive(Debug, Args)]
struct Values {
    /// KEY=VALUE; a value that is JSON is taken as such
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<KeyValue>,
    /// KEY=@FILE or KEY=- for standard input; KEY=VALUE shows the value to whoever lists processes
    #[arg(long, value_name = "KEY=@FILE")]
    set_secret: Vec<Secret>,
}

impl ApplianceCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.place.settings(global)?;
        match &self.verb {
            Verb::Create { name, release, backend, values, start } => {
                create(&settings, name, release, *backend, values, *start, global)
            }
            Verb::Ls { release } => {
                let offered = offered(&settings, release.as_deref())?;
                let appliances = commands::list(&settings, offered.as_ref())?;
                output::show(&ApplianceList { appliances }, global.output)?;
                Ok(Exit::Done)
            }
            Verb::Inspect { name, release } => {
                let offered = offered(&settings, release.as_deref())?;
                let view = ApplianceView(commands::inspect(&settings, name, offered.as_ref())?);
                output::show(&view, global.output)?;
                Ok(Exit::Done)
            }
            Verb::Start { name, wanted, timeout } => {
                let options = options(&settings, *timeout, global);
                match name {
                    Some(name) if !wanted => start(&settings, name, &options, global),
                    _ => start_wanted(&settings, &options, global),
                }
            }
            Verb::Stop { name, .. } => stop(&settings, name.as_ref(), global),
            Verb::Configure { name, values, unset, restart } => {
                configure(&settings, name, values, unset, *restart, global)
            }
            Verb::Log { name } => log(&settings, name),
            Verb::Rm { name, force } => {
                commands::remove(Appliance::open_damaged(&settings, name)?.hold()?, *force)?;
                Console::new(global.quiet, global.progress_fd).say(&format!("{name} is removed"));
                Ok(Exit::Done)
            }
            Verb::Workload(command) => command.run(&settings, global),
            Verb::Supervise { directory } => {
                ::upgrade::supervise::run(directory)?;
                Ok(Exit::Done)
            }
        }
    }
}

fn log(settings: &Settings, name: &ApplianceName) -> Result<Exit> {
    let appliance = Appliance::open(settings, name)?;
    let file = match appliance.identity.backend {
        BackendKind::Vm => "serial.log",
        BackendKind::Slot | BackendKind::Ostree => "log",
    };
    let path = appliance.layout.run().join(file);
    // As it is: what is printed may be anything.
    match std::fs::read(&path) {
        Ok(bytes) => output::print(&String::from_utf8_lossy(&bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::new(Exit::Unexpected, &error, format!("see {}", path.display()))),
    }
    Ok(Exit::Done)
}

pub fn hold(settings: &Settings, name: &ApplianceName) -> Result<Held> {
    Ok(Appliance::open(settings, name)?.hold()?)
}

pub fn options(settings: &Settings, timeout: Option<Period>, global: &Global) -> Options {
    let timeout = timeout.or(settings.timeout).map(Period::get);
    Options { timeout, kubernetes: storage::migrating_offline(global), ..Options::default() }
}

/// The version of a release from elsewhere.
fn offered(settings: &Settings, reference: Option<&str>) -> Result<Option<ReleaseVersion>> {
    reference.map(|reference| bring::version(settings, reference)).transpose()
}

fn create(
    settings: &Settings,
    name: &ApplianceName,
    reference: &str,
    backend: Backend,
    values: &Values,
    start: bool,
    global: &Global,
) -> Result<Exit> {
    let console = Console::new(global.quiet, global.progress_fd);
    let bring = bring::by(settings);
    let backend = match backend {
        Backend::Slot => BackendKind::Slot,
        Backend::Vm => BackendKind::Vm,
        Backend::Ostree => BackendKind::Ostree,
    };
    let create = Create {
        settings,
        name: name.clone(),
        backend,
        reference,
        values: values::map(&values.set, &values.set_secret)?,
        bring: &bring,
    };
    let mut held = commands::create(create, &console)?;
    console.say(&format!("{name} is there, with {}", held.appliance.current()?.version));
    if start {
        commands::start(&mut held, &options(settings, None, global), &console)?;
        console.say(&format!("{name} is ready"));
    }
    Ok(Exit::Done)
}

fn start(settings: &Settings, name: &ApplianceName, options: &Options, global: &Global) -> Result<Exit> {
    let console = Console::new(global.quiet, global.progress_fd);
    let mut held = hold(settings, name)?;
    let news = commands::start(&mut held, options, &console)?;
    let release = held.appliance.current()?.version;
    console
        .say(&format!("{name} {} {release}, and is ready", if news { "runs" } else { "ran already, with" }));
    Ok(Exit::Done)
}

/// One that fails does not keep the others from being started.
fn start_wanted(settings: &Settings, options: &Options, global: &Global) -> Result<Exit> {
    let mut worst = Ok(Exit::Done);
    for name in names(&settings.directory)? {
        let started = Appliance::open(settings, &name).map_err(Failure::from).and_then(|appliance| {
            let interrupted = appliance.transaction()?.is_some();
            match appliance.identity.wanted_on || interrupted {
                true => recover(settings, &name, options, global),
                false => Ok(Exit::Done),
            }
        });
        if let Err(failure) = started {
            failure.print();
            worst = Ok(failure.exit);
        }
    }
    worst
}

/// What was off stays off, once its upgrade is finished or undone.
fn recover(settings: &Settings, name: &ApplianceName, options: &Options, global: &Global) -> Result<Exit> {
    let console = Console::new(global.quiet, global.progress_fd);
    let mut held = hold(settings, name)?;
    if held.appliance.identity.wanted_on {
        drop(held);
        return start(settings, name, options, global);
    }
    commands::stop(&mut held, false, options, &console)?;
    Ok(Exit::Done)
}

fn stop(settings: &Settings, name: Option<&ApplianceName>, global: &Global) -> Result<Exit> {
    let console = Console::new(global.quiet, global.progress_fd);
    let names = match name {
        Some(name) => vec![name.clone()],
        None => names(&settings.directory)?,
    };
    for one in names {
        let was_on = commands::stop(
            &mut Appliance::open_damaged(settings, &one)?.hold()?,
            name.is_some(),
            &options(settings, None, global),
            &console,
        )?;
        console.say(&format!("{one} {}", if was_on { "is stopped" } else { "was not running" }));
    }
    Ok(Exit::Done)
}

fn configure(
    settings: &Settings,
    name: &ApplianceName,
    values: &Values,
    unset: &[String],
    restart: bool,
    global: &Global,
) -> Result<Exit> {
    let console = Console::new(global.quiet, global.progress_fd);
    let set = values::map(&values.set, &values.set_secret)?;
    let changes = Changes { set, unset: unset.to_vec(), restart };
    let in_use = commands::configure(
        &mut hold(settings, name)?,
        &changes,
        &options(settings, None, global),
        &console,
    )?;
    console.say(&match in_use {
        true => format!("{name} is configured"),
        false => format!("{name} is configured; it takes effect when it is started again (--restart)"),
    });
    Ok(Exit::Done)
}
