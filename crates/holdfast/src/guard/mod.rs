//! `holdfast guard …`: arguments in, the part's functions called, results shown.

mod views;

use std::ffi::OsString;
use std::path::PathBuf;

use ::guard::settings::Settings;
use ::guard::{Device, commands, health};
use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::guard::{Health, Place, Wanted, plan};
use logic::host::DeploymentId;
use logic::version::Version;

pub use self::views::Status;
use self::views::{
    BackupList, Deployments, HealthReport, History, Marked, PlanView, PrunedView, VerifiedList,
};
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output::{self, Format};
use crate::witness::Console;

/// Every fact about the host can be given from outside, so that any sequence of boots can be replayed on any machine.
#[derive(Debug, Args)]
pub struct Facts {
    /// The workload's data
    #[arg(long, global = true, value_name = "DIR", help_heading = "Facts about the device")]
    data_dir: Option<PathBuf>,
    /// Where copies and records are kept
    #[arg(long, global = true, value_name = "DIR", help_heading = "Facts about the device")]
    backups_dir: Option<PathBuf>,
    /// The version of the workload's program on this deployment
    #[arg(long, global = true, value_name = "VERSION", help_heading = "Facts about the device")]
    workload_version: Option<String>,
    /// The name of this boot
    #[arg(long, global = true, value_name = "ID", help_heading = "Facts about the device")]
    boot_id: Option<String>,
    /// A file that says which deployments there are, instead of asking the host
    #[arg(long, global = true, value_name = "FILE", help_heading = "Facts about the device")]
    deployments: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct GuardCommand {
    #[command(flatten)]
    facts: Facts,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make the data fit what is booted: back up, restore, migrate, or block
    PreRun {
        /// Print the plan and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Check, record who runs on the data from now on, then become the workload
    Run {
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// Run the checks and record the workload's health
    Healthcheck {
        /// Give up after this long
        #[arg(long, value_name = "TIME")]
        timeout: Option<health::Period>,
    },
    /// Record the verdict on this boot; the next boot acts on it
    PersistSystemHealth {
        /// The system is well: the data of this boot is good
        #[arg(long, required_unless_present = "unhealthy", conflicts_with = "unhealthy")]
        healthy: bool,
        /// The system is not well
        #[arg(long)]
        unhealthy: bool,
    },
    /// Vouch for the data that a deployment left when it ran last
    MarkDeployAsHealthy {
        /// The booted one, unless given
        id: Option<String>,
        /// Why the data is good; kept in the log
        #[arg(long)]
        reason: String,
    },
    /// What is known about this device's data
    Status,
    /// What happened, and why
    History {
        /// Only the last N entries
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
    },
    /// Look after the copies
    #[command(subcommand)]
    Backups(BackupsVerb),
    /// Which deployments the host holds
    Deployments,
    /// Take over data that has no readable version.json
    Adopt {
        /// What the data is
        #[arg(long, value_name = "VERSION")]
        version: String,
    },
}

#[derive(Debug, Subcommand)]
enum BackupsVerb {
    /// All copies that guard keeps
    List,
    /// Compare copies with what was recorded of them
    Verify {
        /// A number, a name or a deployment; all backups, unless given
        which: Option<String>,
    },
    /// Bring a copy back; what is there is moved aside
    Restore {
        /// A number, a name or a deployment; the booted one, unless given
        which: Option<String>,
        /// Let the next boot do it
        #[arg(long)]
        next_boot: bool,
        /// Take back what was left for the next boot
        #[arg(long, conflicts_with_all = ["which", "next_boot"])]
        cancel: bool,
        /// Print the plan and change nothing
        #[arg(long, conflicts_with_all = ["next_boot", "cancel"])]
        dry_run: bool,
    },
    /// Remove what retention lets go
    Prune {
        /// Print what would go and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Take over a directory that something else put among the backups
    Adopt {
        /// Its name, which is that of its deployment
        name: String,
        /// The data is known to be good
        #[arg(long)]
        healthy: bool,
    },
    /// Record a hash of every file of every backup that has none yet
    Seal,
}

impl Facts {
    fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = config::load(global.config.as_deref())?.config.guard;
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        if let Some(dir) = &self.data_dir {
            settings.data_dir = absolute(dir);
        }
        if let Some(dir) = &self.backups_dir {
            settings.backups_dir = absolute(dir);
        }
        if let Some(text) = &self.workload_version {
            settings.workload_version = Some(parse_version(text)?);
        }
        if let Some(id) = &self.boot_id {
            settings.boot_id = Some(id.clone());
        }
        if let Some(file) = &self.deployments {
            settings.deployments = Some(file.clone());
        }
        Ok(settings)
    }
}

fn parse_version(text: &str) -> Result<Version> {
    Version::parse(text).map_err(|error| Failure::usage(error.to_string(), "give it as 4.14.0"))
}

pub fn known(facts: &Facts, global: &Global) -> Result<Status> {
    let device = facts.settings(global)?.device()?;
    Ok(Status::of(&device, &device.survey()?))
}

impl GuardCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.facts.settings(global)?;
        let format = global.output;
        let console = Console::new(global.quiet, global.progress_fd);
        match &self.verb {
            Verb::Deployments => {
                settings.validate()?;
                output::show(&Deployments::of(&settings.read_host()?), format)?;
            }
            Verb::Status => output::show(&known(&self.facts, global)?, format)?,
            verb => return verb.run(&settings, &settings.device()?, &console, format),
        }
        Ok(Exit::Done)
    }
}

impl Verb {
    fn run(&self, settings: &Settings, device: &Device, console: &Console, format: Format) -> Result<Exit> {
        match self {
            Self::PreRun { dry_run: true } => {
                let survey = device.survey()?;
                output::show(&PlanView::new(&plan(&survey.observed), true), format)?;
            }
            Self::PreRun { dry_run: false } => {
                commands::pre_run(device, console, |plan| show_plan(&PlanView::new(plan, false), format))?;
            }
            Self::Run { command } => commands::run(device, command, console)?,
            Self::Healthcheck { timeout } => return healthcheck(settings, device, *timeout, console, format),
            Self::PersistSystemHealth { healthy, .. } => {
                let verdict = if *healthy { Health::Healthy } else { Health::Unhealthy };
                commands::persist_system_health(device, verdict, console)?;
                console.say(&format!("recorded: this boot of {} is {verdict}", device.host.booted));
                if *healthy {
                    after_green(device, console);
                }
            }
            Self::MarkDeployAsHealthy { id, reason } => {
                let id = id.as_deref().map(parse_deployment).transpose()?;
                let marked = commands::mark_healthy(device, id.as_ref(), reason, console)?;
                output::show(&Marked(marked), format)?;
            }
            Self::History { limit } => output::show(&History::read(device, *limit)?, format)?,
            Self::Backups(verb) => return verb.run(device, console, format),
            Self::Adopt { version } => commands::adopt_data(device, &parse_version(version)?, console)?,
            // Answered before the device was looked at.
            Self::Status | Self::Deployments => {}
        }
        Ok(Exit::Done)
    }
}

impl BackupsVerb {
    fn run(&self, device: &Device, console: &Console, format: Format) -> Result<Exit> {
        match self {
            Self::List => output::show(&BackupList::of(&device.survey()?), format)?,
            Self::Verify { which } => {
                let wanted = which.as_deref().map(|which| wanted(device, which)).transpose()?;
                let list = VerifiedList { items: commands::verify(device, wanted.as_ref(), console)? };
                output::show(&list, format)?;
                let damaged = list.items.iter().filter(|item| !item.problems.is_empty()).count();
                if damaged > 0 {
                    return Err(Failure {
                        exit: Exit::MetadataDamaged,
                        error: format!("{damaged} of {} copies are not what they were", list.items.len()),
                        causes: vec![],
                        hint: "mend them, or bring back another one: `holdfast guard backups list`"
                            .to_owned(),
                    });
                }
            }
            Self::Restore { cancel: true, .. } => commands::cancel_restore(device, console)?,
            Self::Restore { which, next_boot, dry_run, .. } => {
                let wanted = which.as_deref().map_or(Ok(Wanted::Booted), |which| wanted(device, which))?;
                if *next_boot {
                    commands::request_restore(device, &wanted, console)?;
                    console.say("the next boot restores it; `holdfast guard backups restore --cancel` takes that back");
                } else if *dry_run {
                    let plan = commands::plan_of_restore(device, &wanted)?;
                    output::show(&PlanView::new(&plan, true), format)?;
                } else {
                    commands::restore(device, &wanted, console, |plan| {
                        show_plan(&PlanView::new(plan, false), format);
                    })?;
                }
            }
            Self::Prune { dry_run } => {
                output::show(&PrunedView(commands::prune(device, *dry_run, console)?), format)?;
            }
            Self::Adopt { name, healthy } => {
                let copy = commands::adopt_backup(device, name, *healthy, console)?;
                output::show(&BackupList::one(copy), format)?;
            }
            Self::Seal => {
                commands::seal(device, console)?;
            }
        }
        Ok(Exit::Done)
    }
}

fn show_plan(plan: &PlanView, format: Format) {
    // A plan that can't be printed is still carried out: a boot must not depend on its terminal.
    let _ = output::show(plan, format);
}

/// A healthy verdict is recorded by now; what follows is housekeeping, and its failure no reason for a red boot.
fn after_green(device: &Device, console: &Console) {
    let report = |what: &str, error: ::guard::Error| {
        ::guard::Witness::note(console, &format!("{what}: {}", ::guard::error_chain(&error)));
    };
    if let Err(error) = commands::tidy(device, console) {
        report("retention did not finish", error);
    }
    if let Err(error) = commands::seal(device, console) {
        report("not every backup got its hashes", error);
    }
}

fn healthcheck(
    settings: &Settings,
    device: &Device,
    timeout: Option<health::Period>,
    console: &Console,
    format: Format,
) -> Result<Exit> {
    let invalid = |error: health::Error| Failure::new(Exit::Usage, &error, error.hint());
    let limit = timeout.unwrap_or(settings.health.timeout).get();
    let mut report = health::run_checks(&settings.health, limit, Some(console.stop())).map_err(invalid)?;
    if report.checks.is_empty() {
        ::guard::Witness::note(
            console,
            "no checks are configured: healthy only because nothing says otherwise",
        );
    }
    report.add(commands::check_of_pre_run(device)?);
    if report.interrupted {
        return Err(::guard::Error::Interrupted.into());
    }
    commands::persist_workload_health(device, &report, console)?;
    let healthy = report.verdict == health::Verdict::Healthy;
    let view = HealthReport(report);
    output::show(&view, format)?;
    Ok(match (healthy, view.0.only_timed_out()) {
        (true, _) => Exit::Done,
        (false, true) => Exit::TimedOut,
        (false, false) => Exit::Unhealthy,
    })
}

fn parse_deployment(text: &str) -> Result<DeploymentId> {
    DeploymentId::new(text)
        .map_err(|error| Failure::usage(error.to_string(), "`holdfast guard status` lists the deployments"))
}

/// A number, the name under which a copy stands in the backups directory, or a deployment.
fn wanted(device: &Device, which: &str) -> Result<Wanted> {
    if let Ok(number) = which.parse() {
        return Ok(Wanted::Number(number));
    }
    let survey = device.survey()?;
    let named = survey.observed.copies.iter().find(|copy| match &copy.place {
        Place::Aside(name) => name == which,
        place @ Place::LastHealthy(_) => {
            device.layout.path(place).file_name().is_some_and(|name| name == which)
        }
        _ => false,
    });
    match named {
        Some(copy) => Ok(Wanted::Number(copy.number)),
        None => Ok(Wanted::Deployment(parse_deployment(which)?)),
    }
}
