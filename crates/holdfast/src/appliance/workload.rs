//! `holdfast appliance workload …`.

use std::sync::atomic::AtomicBool;

use ::upgrade::commands::{self, WorkloadNote};
use ::upgrade::migration::{self, WorkloadView};
use ::upgrade::settings::Settings;
use ::upgrade::supervise::Launcher;
use ::upgrade::workload::{self, Record, Set};
use ::upgrade::{Appliance, now};
use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::migrate::Target;
use logic::upgrade::ApplianceName;
use migrate::Data;
use serde::Serialize;
use serde_json::{Map, Value};

use super::values::{self, KeyValue};
use super::views::workloads;
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::output::{self, Show, fields};
use crate::witness::Console;

#[derive(Debug, Args)]
pub struct WorkloadCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make one with the release in force, and start it
    Create {
        appliance: ApplianceName,
        name: ApplianceName,
        /// Its data: KEY=VALUE; a value that is JSON is taken as such
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<KeyValue>,
        /// What it runs; {release}, {data}, {run} and {config.KEY} stand for what they say
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// List them, as the release in force sees them
    Ls {
        appliance: ApplianceName,
    },
    /// Show one, its data in the form of the release in force
    Inspect {
        appliance: ApplianceName,
        name: ApplianceName,
    },
    /// Change its data; skipped, and said so, where that would need the form of a newer release
    Set {
        appliance: ApplianceName,
        name: ApplianceName,
        #[arg(value_name = "KEY=VALUE", required = true)]
        values: Vec<KeyValue>,
    },
    Start {
        appliance: ApplianceName,
        name: ApplianceName,
    },
    Stop {
        appliance: ApplianceName,
        name: ApplianceName,
    },
    /// Remove it, with its data
    Rm {
        appliance: ApplianceName,
        name: ApplianceName,
        /// Although it runs
        #[arg(long)]
        force: bool,
    },
}

impl Verb {
    fn appliance(&self) -> &ApplianceName {
        match self {
            Self::Create { appliance, .. }
            | Self::Ls { appliance }
            | Self::Inspect { appliance, .. }
            | Self::Set { appliance, .. }
            | Self::Start { appliance, .. }
            | Self::Stop { appliance, .. }
            | Self::Rm { appliance, .. } => appliance,
        }
    }
}

impl From<workload::Error> for Failure {
    fn from(error: workload::Error) -> Self {
        Self::new(error.exit(), &error, error.hint())
    }
}

impl WorkloadCommand {
    pub fn run(&self, settings: &Settings, global: &Global) -> Result<Exit> {
        let console = Console::new(global.quiet, global.progress_fd);
        let appliance = Appliance::open(settings, self.verb.appliance())?;
        let layout = appliance.layout.clone();
        match &self.verb {
            // Whoever makes one must not be overtaken by an upgrade: it names the release in force.
            Verb::Create { name, set, command, .. } => {
                let held = appliance.hold()?;
                if held.interrupted.as_ref().is_some_and(|transaction| transaction.snapshot_taken) {
                    return Err(unsettled(self.verb.appliance()));
                }
                let record = record(&held.appliance, name, values::map(set, &[])?, command)?;
                workload::create(&layout, &record)?;
                drop(held);
                workload::start(&layout, name, &launcher()?)?;
                console.say(&format!("{name} runs, made by {}", record.release.version));
            }
            Verb::Ls { .. } => {
                let seen = commands::inspect(settings, self.verb.appliance(), None)?;
                output::show(&WorkloadList { workloads: seen.workloads }, global.output)?;
            }
            Verb::Inspect { name, .. } => {
                let record = workload::load(&layout, name)?;
                let view = view(&appliance, &record)?;
                let on = workload::is_running(&layout, name)?;
                output::show(&RecordView::of(&record, view, on), global.output)?;
            }
            Verb::Set { name, values, .. } => {
                let held = appliance.hold()?;
                let newest = workload_version(&held.appliance)?;
                for (key, value) in values::map(values, &[])? {
                    match workload::set(&layout, name, newest, &key, value)? {
                        Set::Written => {}
                        Set::Skipped { key, data_version, release_version } => console.say(&format!(
                            "skipped {key}: {name} keeps its data of version {data_version}, and this would need \
                             version {release_version}; make it again to change it"
                        )),
                    }
                }
            }
            Verb::Start { name, .. } => {
                workload::start(&layout, name, &launcher()?)?;
                console.say(&format!("{name} runs"));
            }
            Verb::Stop { name, .. } => {
                workload::stop(&layout, name)?;
                console.say(&format!("{name} is stopped"));
            }
            Verb::Rm { name, force, .. } => {
                if !force && workload::is_running(&layout, name)? {
                    let hint = format!("stop it first, or add --force: {} {name}", self.verb.appliance());
                    return Err(Failure {
                        exit: Exit::Refused,
                        error: format!("{name} runs"),
                        causes: vec![],
                        hint,
                    });
                }
                workload::remove(&layout, name)?;
                console.say(&format!("{name} is removed"));
            }
        }
        Ok(Exit::Done)
    }
}

fn launcher() -> Result<Launcher> {
    Launcher::of_this_program().map_err(|error| {
        Failure::new(Exit::Unexpected, &error, "see that this program's file is still there")
    })
}

fn unsettled(name: &ApplianceName) -> Failure {
    let error = format!("an upgrade of {name} was interrupted: which release would make it is not settled");
    let hint = format!("`holdfast upgrade {name} --resume` finishes it, `--rollback` undoes it");
    Failure { exit: Exit::Refused, error, causes: vec![], hint }
}

/// The version of workloads' data that the release in force writes.
fn workload_version(appliance: &Appliance) -> Result<u32> {
    let current = appliance.current()?;
    let manifest = appliance.manifest(&current.id)?;
    let registry = migration::registry(&appliance.layout.release(&current.id), &manifest)?;
    Ok(registry.newest(Target::Workload))
}

fn record(
    appliance: &Appliance,
    name: &ApplianceName,
    data: Map<String, Value>,
    command: &[String],
) -> Result<Record> {
    Ok(Record {
        name: name.clone(),
        release: appliance.current()?,
        data_version: workload_version(appliance)?,
        applied: vec![],
        data,
        command: command.to_vec(),
        made: now(),
    })
}

/// Its data as the release in force reads it.
fn view(appliance: &Appliance, record: &Record) -> Result<WorkloadView> {
    let data =
        Data { version: record.data_version, applied: record.applied.clone(), values: record.data.clone() };
    let never = AtomicBool::new(false);
    Ok(migration::workload_view(&appliance.layout, &appliance.current()?, &data, &never)?)
}

#[derive(Serialize)]
struct WorkloadList {
    workloads: Vec<WorkloadNote>,
}

impl Show for WorkloadList {
    const KIND: &'static str = "WorkloadList";

    fn table(&self, _wide: bool) -> String {
        workloads(&self.workloads)
    }

    fn names(&self) -> Vec<String> {
        self.workloads.iter().map(|note| note.name.clone()).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordView {
    name: String,
    on: bool,
    made_by: String,
    made: String,
    /// On disk.
    data_version: u32,
    /// As it is shown.
    read_as: u32,
    unavailable: Vec<String>,
    command: Vec<String>,
    data: Map<String, Value>,
}

impl RecordView {
    fn of(record: &Record, view: WorkloadView, on: bool) -> Self {
        Self {
            name: record.name.to_string(),
            on,
            made_by: record.release.version.to_string(),
            made: record.made.clone(),
            data_version: record.data_version,
            read_as: view.version,
            unavailable: view.unavailable,
            command: record.command.clone(),
            data: view.values,
        }
    }
}

impl Show for RecordView {
    const KIND: &'static str = "Workload";

    fn table(&self, _wide: bool) -> String {
        let mut rows = vec![
            ("name", self.name.clone()),
            ("power", if self.on { "on".to_owned() } else { "off".to_owned() }),
            ("made by", self.made_by.clone()),
            ("made", self.made.clone()),
            ("data version", format!("{}, read as {}", self.data_version, self.read_as)),
            ("command", self.command.join(" ")),
            ("data", Value::Object(self.data.clone()).to_string()),
        ];
        if !self.unavailable.is_empty() {
            rows.push(("no longer", self.unavailable.join(", ")));
        }
        fields(&rows)
    }

    fn names(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}
