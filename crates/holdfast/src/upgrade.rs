//! `holdfast upgrade …`: to a release, one step back, or on where it was interrupted.

use std::path::Path;

use ::agent::precondition::STORAGE_GATE;
use ::upgrade::commands::{self, Plan, Request, Upgraded};
use clap::Args;
use logic::exit::Exit;
use logic::period::Period;
use logic::upgrade::{ApplianceName, UNPROVEN};
use serde::Serialize;

use crate::agent::gate;
use crate::appliance::values::Secret;
use crate::appliance::{Place, hold, options};
use crate::bring;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::output::{self, Show, fields};
use crate::witness::Console;

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["release", "rollback", "resume"])))]
pub struct UpgradeCommand {
    #[command(flatten)]
    place: Place,
    /// The appliance
    name: ApplianceName,
    /// HOST/REPO:TAG, HOST/REPO@sha256:…, oci:DIR:TAG, or a directory
    #[arg(long, value_name = "REF", conflicts_with = "rollback")]
    release: Option<String>,
    /// One step back, to the release before; or undo an upgrade that was interrupted
    #[arg(long, conflicts_with_all = ["resume", "set_secret"])]
    rollback: bool,
    /// Take an interrupted upgrade to its end
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,
    /// Show the steps, the migrations and the keys that each would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Pass over a precondition, by its name; may be given again
    #[arg(long, value_name = "NAME", value_parser = [STORAGE_GATE], conflicts_with = "rollback")]
    force: Vec<String>,
    /// To become ready in, instead of what the release says
    #[arg(long, value_name = "TIME")]
    timeout: Option<Period>,
    /// Replace a secret: KEY=@FILE, KEY=- for standard input; KEY=VALUE shows it to whoever lists processes
    #[arg(long, value_name = "KEY=@FILE")]
    set_secret: Vec<Secret>,
}

impl UpgradeCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.place.settings(global)?;
        if self.timeout.is_some_and(Period::is_zero) {
            return Err(Failure::usage("--timeout leaves no time at all", "leave it out, or give it some"));
        }
        let console = Console::new(global.quiet, global.progress_fd);
        let mut options = options(&settings, self.timeout, global);
        for secret in &self.set_secret {
            options.secrets.insert(secret.key.clone(), secret.read()?);
        }
        let mut held = hold(&settings, &self.name)?;
        if self.rollback && self.dry_run {
            let plan = commands::plan_roll_back(&mut held, &options, &console)?;
            output::show(&PlanView::of(&self.name, &plan), global.output)?;
            return Ok(Exit::Done);
        }
        if self.rollback {
            let moved = commands::roll_back(&mut held, &options, &console)?;
            self.show("rolled back", &moved, global)?;
            return Ok(Exit::Done);
        }
        let bring = bring::by(&settings);
        let reference = self.release.as_deref().map(bring::absolute).unwrap_or_default();
        let storage = config::load(global.config.as_deref())?.config.storage;
        let gate = |release: &Path| gate::refuses(release, &storage, &self.force);
        let request = Request { reference: &reference, options, bring: &bring, gate: Some(&gate) };
        if self.dry_run {
            let plan = commands::plan(&mut held, &request, &console)?;
            output::show(&PlanView::of(&self.name, &plan), global.output)?;
            return Ok(Exit::Done);
        }
        let moved = match self.resume {
            true => commands::resume(&mut held, &request, &console)?,
            false => commands::upgrade(&mut held, &request, &console)?,
        };
        self.show(if self.resume { "resumed" } else { "upgraded" }, &moved, global)?;
        Ok(Exit::Done)
    }

    fn show(&self, verb: &'static str, moved: &Upgraded, global: &Global) -> Result<()> {
        let (outcome, from, to, unproven, workloads) = match moved {
            Upgraded::Already(image) => ("up to date", image, image, false, vec![]),
            Upgraded::Moved { from, to, unproven, workloads } => {
                let limited =
                    workloads.iter().filter(|note| !note.unavailable.is_empty() || note.trouble.is_some());
                (verb, from, to, *unproven, limited.cloned().collect())
            }
        };
        let outcome = Outcome {
            appliance: self.name.to_string(),
            outcome,
            from: from.version.to_string(),
            to: to.version.to_string(),
            unproven,
            workloads,
        };
        output::show(&outcome, global.output)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    appliance: String,
    outcome: &'static str,
    from: String,
    to: String,
    /// Nothing has proved that it becomes ready: it was switched off.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unproven: bool,
    /// Those that have lost a function.
    workloads: Vec<commands::WorkloadNote>,
}

impl Show for Outcome {
    const KIND: &'static str = "Upgrade";

    fn table(&self, _wide: bool) -> String {
        let mut text = match self.outcome {
            "up to date" => format!("{} has {} already\n", self.appliance, self.to),
            verb => format!("{} is {verb}: from {} to {}\n", self.appliance, self.from, self.to),
        };
        if self.unproven {
            text.push_str(&format!("{UNPROVEN}\n"));
        }
        for note in &self.workloads {
            let lost = match &note.trouble {
                Some(trouble) => trouble.clone(),
                None => format!("no longer: {}", note.unavailable.join(", ")),
            };
            text.push_str(&format!(
                "workload {} of {} goes on with limits: {lost}; make it again to lift them\n",
                note.name, note.made_by
            ));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![self.appliance.clone()]
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanView {
    appliance: String,
    from: String,
    to: String,
    steps: Vec<&'static str>,
    data_versions: Vec<u32>,
    migrations: Vec<MigrationView>,
    /// Kubernetes objects would be stored anew.
    kubernetes: bool,
    workloads: Vec<commands::WorkloadNote>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MigrationView {
    version: u32,
    name: String,
    changes: Vec<logic::migrate::KeyChange>,
    stores: Vec<String>,
    notes: Vec<String>,
}

impl PlanView {
    fn of(name: &ApplianceName, plan: &Plan) -> Self {
        let steps = plan.migrated.iter().flat_map(|migrated| &migrated.steps);
        let migrations: Vec<MigrationView> = steps
            .map(|step| MigrationView {
                version: step.version,
                name: step.name.clone(),
                changes: step.changes.clone(),
                stores: step.stores.clone(),
                notes: step.notes.clone(),
            })
            .collect();
        let first = plan.migrated.as_ref().map(|migrated| migrated.data.version - migrations.len() as u32);
        Self {
            appliance: name.to_string(),
            from: plan.from.version.to_string(),
            to: plan.to.version.to_string(),
            steps: plan.steps.iter().map(|step| step.name()).collect(),
            data_versions: first.into_iter().chain(migrations.iter().map(|one| one.version)).collect(),
            migrations,
            kubernetes: plan.kubernetes,
            workloads: plan.workloads.clone(),
        }
    }
}

impl Show for PlanView {
    const KIND: &'static str = "UpgradePlan";

    fn table(&self, _wide: bool) -> String {
        if self.steps.is_empty() {
            return format!("{} has {} already: nothing would be done\n", self.appliance, self.to);
        }
        let path: Vec<String> = self.data_versions.iter().map(ToString::to_string).collect();
        let mut text = fields(&[
            ("appliance", self.appliance.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("steps", self.steps.join(" · ")),
            ("data", if path.is_empty() { "as it was then".to_owned() } else { path.join(" → ") }),
        ]);
        for migration in &self.migrations {
            text.push_str(&format!("\nmigration to {} ({})\n", migration.version, migration.name));
            let changes = migration.changes.iter().map(|change| format!("  {change}\n"));
            text.extend(changes);
            text.extend(migration.stores.iter().map(|store| format!("  + store {store}\n")));
            text.extend(migration.notes.iter().map(|note| format!("  note: {note}\n")));
        }
        if self.kubernetes {
            text.push_str("\nKubernetes: every object is stored anew by the API server of the release\n");
        }
        if !self.workloads.is_empty() {
            text.push('\n');
            text.push_str(&crate::appliance::workloads(&self.workloads));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.steps.iter().map(|step| (*step).to_owned()).collect()
    }
}
