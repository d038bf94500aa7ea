//! How guard's results look: one type per document, as a table and as data.

use ::guard::commands::{Marked as MarkedHealthy, Pruned, Verified};
use ::guard::device::{Device, Survey};
use ::guard::execute::name_of;
use ::guard::health;
use ::guard::records::actions::{self, Action};
use ::guard::records::copy_file::CopyFile;
use host::Found;
use logic::guard::{Boot, CopyRecord, Data, DataState, Outcome, Place, Plan, Recorded, RestoreRequest};
use logic::host::DeploymentId;
use logic::version::Version;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::output::{Show, bytes, fields, table};

#[derive(Serialize)]
pub struct PlanView {
    dry_run: bool,
    #[serde(flatten)]
    plan: Plan,
}

impl PlanView {
    pub fn new(plan: &Plan, dry_run: bool) -> Self {
        Self { dry_run, plan: plan.clone() }
    }
}

impl Show for PlanView {
    const KIND: &'static str = "GuardPlan";

    fn table(&self, _wide: bool) -> String {
        let plan = &self.plan;
        let mut text = fields(&[("branch", plan.branch.to_string()), ("reason", plan.reason.clone())]);
        for (number, planned) in plan.steps.iter().enumerate() {
            text.push_str(&format!("  {}. {:<18} {}\n", number + 1, name_of(&planned.step), planned.reason));
        }
        match &plan.outcome {
            Outcome::Allow => text.push_str("the workload may start\n"),
            Outcome::Block(block) => {
                text.push_str(&format!("blocked ({}): {}\n", block.rule, block.why));
                text.push_str(&format!("way out: {}\n", block.way_out));
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.plan.steps.iter().map(|planned| name_of(&planned.step).to_owned()).collect()
    }
}

#[derive(Serialize)]
pub struct Status {
    booted: DeploymentId,
    boot: String,
    workload_version: Version,
    data: DataView,
    /// The record of this boot, once `pre-run` has begun.
    this_boot: Option<Boot>,
    boots: Vec<Boot>,
    copies: usize,
    request: Option<RestoreRequest>,
    /// An operation that was interrupted and will be finished or undone by the next `pre-run`.
    interrupted: bool,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct DataView {
    state: &'static str,
    version: Option<Version>,
    owner: Option<DeploymentId>,
    boot: Option<u64>,
}

impl Status {
    pub fn of(device: &Device, survey: &Survey) -> Self {
        let seen = &survey.observed;
        let record = seen.data.record();
        let state = match (&seen.data, record.map(|record| &record.state)) {
            (Data::Absent, _) => "absent",
            (Data::Present(Recorded::Missing), _) => "no version.json",
            (Data::Present(Recorded::Damaged(_)), _) => "version.json damaged",
            (_, Some(DataState::Tainted { failed: true, .. })) => "migration failed",
            (_, Some(DataState::Tainted { failed: false, .. })) => "migration interrupted",
            _ => "ok",
        };
        Self {
            booted: device.host.booted.clone(),
            boot: device.boot.to_string(),
            workload_version: device.program.clone(),
            data: DataView {
                state,
                version: record.map(|record| record.version.clone()),
                owner: record.map(|record| record.owner.deployment.clone()),
                boot: record.and_then(|record| record.owner.seq),
            },
            this_boot: seen.boots.find(&device.boot, &device.host.booted).cloned(),
            boots: seen.boots.iter().cloned().collect(),
            copies: seen.copies.iter().count(),
            request: seen.request.clone(),
            interrupted: seen.unfinished.is_some(),
            notes: survey.notes.clone(),
        }
    }
}

fn text_of<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn spelled<T: Serialize>(value: T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

impl Show for Status {
    const KIND: &'static str = "GuardStatus";

    fn table(&self, wide: bool) -> String {
        let mut rows = vec![
            ("booted", self.booted.to_string()),
            ("program", self.workload_version.to_string()),
            ("data", self.data.state.to_owned()),
            ("data version", text_of(self.data.version.as_ref())),
            ("data owner", text_of(self.data.owner.as_ref())),
            ("pre-run", self.this_boot.as_ref().map_or("not yet".to_owned(), |boot| spelled(boot.pre_run))),
            ("copies", self.copies.to_string()),
        ];
        if let Some(request) = &self.request {
            rows.push(("next boot", format!("restores {}", spelled(&request.wanted))));
        }
        if self.interrupted {
            rows.push((
                "interrupted",
                "an operation; `holdfast guard pre-run` finishes or undoes it".to_owned(),
            ));
        }
        for note in &self.notes {
            rows.push(("note", note.clone()));
        }
        let mut text = fields(&rows);
        let shown = if wide { self.boots.len() } else { 8 };
        let boots: Vec<Vec<String>> = self
            .boots
            .iter()
            .rev()
            .take(shown)
            .map(|boot| {
                vec![
                    boot.seq.to_string(),
                    boot.deployment.to_string(),
                    spelled(boot.pre_run),
                    if boot.ran { "yes" } else { "no" }.to_owned(),
                    boot.workload.to_string(),
                    boot.system.to_string(),
                    boot.at.clone(),
                ]
            })
            .collect();
        if !boots.is_empty() {
            text.push('\n');
            text.push_str(&table(
                &["BOOT", "DEPLOYMENT", "PRE-RUN", "RAN", "WORKLOAD", "SYSTEM", "AT"],
                &boots,
            ));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![self.booted.to_string()]
    }
}

#[derive(Serialize)]
pub struct History {
    items: Vec<Action>,
    unreadable: usize,
}

impl History {
    pub fn read(device: &Device, limit: Option<usize>) -> Result<Self> {
        let (mut items, unreadable) = actions::read(&device.layout.actions()).map_err(|error| {
            Failure::new(
                logic::exit::Exit::MetadataDamaged,
                &error,
                "move actions.log away: nothing depends on it",
            )
        })?;
        if let Some(limit) = limit {
            items.drain(..items.len().saturating_sub(limit));
        }
        Ok(Self { items, unreadable })
    }
}

impl Show for History {
    const KIND: &'static str = "GuardHistory";

    fn table(&self, wide: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .items
            .iter()
            .map(|action| {
                let mut row = vec![
                    action.when.clone(),
                    action.seq.to_string(),
                    action.deployment.to_string(),
                    action.step.clone(),
                    action.outcome.clone(),
                ];
                if wide {
                    row.push(action.branch.clone().unwrap_or_else(|| "-".to_owned()));
                }
                row.push(action.reason.replace('\n', " "));
                row
            })
            .collect();
        let header: &[&str] = match wide {
            true => &["WHEN", "BOOT", "DEPLOYMENT", "STEP", "OUTCOME", "BRANCH", "REASON"],
            false => &["WHEN", "BOOT", "DEPLOYMENT", "STEP", "OUTCOME", "REASON"],
        };
        table(header, &rows)
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|action| action.step.clone()).collect()
    }
}

#[derive(Serialize)]
pub struct BackupList {
    items: Vec<BackupView>,
    /// Directories in the backups directory that guard did not make.
    foreign: Vec<String>,
}

#[derive(Serialize)]
struct BackupView {
    name: String,
    vouched: bool,
    #[serde(flatten)]
    file: CopyFile,
}

impl BackupList {
    pub fn of(survey: &Survey) -> Self {
        let seen = &survey.observed;
        let known = survey.records.files.iter().filter(|file| seen.copies.get(file.record.number).is_some());
        let items = known.map(|file| BackupView {
            name: name(&file.record.place),
            vouched: file.record.is_vouched(&seen.boots),
            file: file.clone(),
        });
        Self { items: items.collect(), foreign: seen.foreign.clone() }
    }

    pub fn one(record: CopyRecord) -> Self {
        let name = name(&record.place);
        let vouched = record.healthy;
        let file = CopyFile { record, at: String::new(), files: 0, method: "adopted".to_owned() };
        Self { items: vec![BackupView { name, vouched, file }], foreign: vec![] }
    }
}

/// As it stands in the backups directory.
fn name(place: &Place) -> String {
    match place {
        Place::Current(deployment) => deployment.to_string(),
        Place::Generation(deployment, number) => format!(".generations/{deployment}/{number}"),
        Place::LastHealthy(deployment) => format!("last_healthy__{deployment}"),
        Place::Aside(name) => name.clone(),
        Place::Data | Place::Incoming(_) | Place::Staging(_) => "-".to_owned(),
    }
}

impl Show for BackupList {
    const KIND: &'static str = "GuardBackupList";

    fn table(&self, wide: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .items
            .iter()
            .map(|item| {
                let record = &item.file.record;
                let mut row = vec![
                    record.number.to_string(),
                    item.name.clone(),
                    text_of(record.version.as_ref()),
                    if item.vouched { "yes" } else { "no" }.to_owned(),
                    text_of(record.owner.seq),
                    item.file.at.clone(),
                ];
                if wide {
                    let size = if record.bytes == 0 { "-".to_owned() } else { bytes(record.bytes) };
                    row.extend([item.file.files.to_string(), size, item.file.method.clone()]);
                }
                row
            })
            .collect();
        let header: &[&str] = match wide {
            true => &["N", "NAME", "VERSION", "HEALTHY", "BOOT", "MADE", "FILES", "SIZE", "METHOD"],
            false => &["N", "NAME", "VERSION", "HEALTHY", "BOOT", "MADE"],
        };
        let mut text = table(header, &rows);
        for name in &self.foreign {
            text.push_str(&format!("(not made by guard: {name})\n"));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.name.clone()).collect()
    }
}

#[derive(Serialize)]
pub struct VerifiedList {
    pub items: Vec<Verified>,
}

impl Show for VerifiedList {
    const KIND: &'static str = "GuardVerification";

    fn table(&self, _wide: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .items
            .iter()
            .map(|item| {
                let result = match item.problems.len() {
                    0 => "intact".to_owned(),
                    count => format!("{count} problems: {}", item.problems[..count.min(3)].join("; ")),
                };
                vec![item.number.to_string(), item.deployment.to_string(), item.depth.to_owned(), result]
            })
            .collect();
        table(&["N", "DEPLOYMENT", "DEPTH", "RESULT"], &rows)
    }

    fn names(&self) -> Vec<String> {
        self.items.iter().map(|item| item.number.to_string()).collect()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct PrunedView(pub Pruned);

impl Show for PrunedView {
    const KIND: &'static str = "GuardPruning";

    fn table(&self, _wide: bool) -> String {
        if self.0.removed.is_empty() {
            return "nothing to remove\n".to_owned();
        }
        let rows = self.0.removed.iter().zip(&self.0.reasons);
        let rows: Vec<Vec<String>> = rows
            .map(|(copy, reason)| vec![copy.number.to_string(), name(&copy.place), reason.clone()])
            .collect();
        table(&["N", "NAME", "REASON"], &rows)
    }

    fn names(&self) -> Vec<String> {
        self.0.removed.iter().map(|copy| name(&copy.place)).collect()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct Marked(pub MarkedHealthy);

impl Show for Marked {
    const KIND: &'static str = "GuardMark";

    fn table(&self, _wide: bool) -> String {
        format!("{} is marked healthy (boot {})\n", self.0.deployment, self.0.seq)
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.deployment.to_string()]
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct Deployments {
    found: Found,
}

impl Deployments {
    pub fn of(found: &Found) -> Self {
        Self { found: found.clone() }
    }
}

impl Show for Deployments {
    const KIND: &'static str = "GuardDeployments";

    fn table(&self, _wide: bool) -> String {
        let host = &self.found.host;
        let state = |id: &DeploymentId| {
            let flags = [
                (host.booted == *id, "booted"),
                (host.rollback.as_ref() == Some(id), "rollback"),
                (host.staged.as_ref() == Some(id), "staged"),
                (host.pinned.contains(id), "pinned"),
            ];
            flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(",")
        };
        let rows: Vec<Vec<String>> =
            host.deployments.iter().map(|id| vec![id.to_string(), state(id)]).collect();
        table(&["DEPLOYMENT", "STATE"], &rows)
    }

    fn names(&self) -> Vec<String> {
        self.found.host.deployments.iter().map(DeploymentId::to_string).collect()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct HealthReport(pub health::Report);

impl Show for HealthReport {
    const KIND: &'static str = "HealthReport";

    fn table(&self, _wide: bool) -> String {
        let rows: Vec<Vec<String>> = self
            .0
            .checks
            .iter()
            .map(|check| {
                vec![
                    check.name.clone(),
                    spelled(check.kind.clone()),
                    if check.required { "required" } else { "wanted" }.to_owned(),
                    spelled(check.outcome),
                    check.detail.replace('\n', " "),
                ]
            })
            .collect();
        format!(
            "{}{}\n",
            table(&["CHECK", "KIND", "NEED", "OUTCOME", "DETAIL"], &rows),
            spelled(self.0.verdict)
        )
    }

    fn names(&self) -> Vec<String> {
        self.0.checks.iter().map(|check| check.name.clone()).collect()
    }
}
