//! How storage states, migrations and the gate's answer are shown.

use ::storage::api::{MIGRATING, Progress, StorageVersionMigration};
use ::storage::controller::Settled;
use ::storage::overview::Overview;
use logic::period::Period;
use logic::storage::{Blocker, Gate, Phase, Resource, State, StoredVersion};
use serde::Serialize;
use std::time::Duration;

use crate::output::{Show, table};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateList {
    resources: Vec<StateLine>,
    /// Groups that could not be read, and why.
    unreadable: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateLine {
    resource: String,
    /// Whether an API server serves it now.
    served: bool,
    current: Option<StoredVersion>,
    persisted: Vec<StoredVersion>,
    /// The same as `persisted`, as versions where that can be told.
    stored_as: Vec<String>,
    /// Everything is stored in the current version, and somebody has looked lately.
    settled: bool,
    heartbeat_age_seconds: Option<i64>,
    heartbeat_is_old: bool,
    migration: Option<MigrationLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MigrationLine {
    name: String,
    resource: String,
    phase: &'static str,
    reason: String,
    message: String,
    progress: Progress,
    failures: Vec<String>,
}

impl StateList {
    pub fn of(seen: &Overview, only: &[Resource], now: i64, patience: i64) -> Self {
        let mut resources: Vec<&Resource> = seen.discovered.served.keys().chain(seen.states.keys()).collect();
        resources.sort();
        resources.dedup();
        resources.retain(|resource| only.is_empty() || only.contains(resource));
        let line = |resource: &Resource| {
            let state = seen.states.get(resource).and_then(::storage::api::StorageState::state);
            // One that was never looked at has no age.
            let age =
                state.as_ref().map(|state| now.saturating_sub(state.heartbeat)).filter(|age| *age < now);
            let old = state.is_some() && age.is_none_or(|age| age.abs() > patience);
            // What the API server writes now may be news to whoever keeps the record.
            let now = seen.discovered.served.get(resource).map(|served| served.hash.clone().into());
            let changed = now.is_some() && now != state.as_ref().map(|state| state.current.clone());
            StateLine {
                resource: resource.to_string(),
                served: seen.discovered.served.contains_key(resource),
                current: state.as_ref().map(|state| state.current.clone()),
                settled: state.as_ref().is_some_and(logic::storage::State::is_settled) && !old && !changed,
                stored_as: stored_as(seen, resource, state.as_ref()),
                persisted: state.map(|state| state.persisted).unwrap_or_default(),
                heartbeat_age_seconds: age,
                heartbeat_is_old: old,
                migration: seen.migration_of(resource).map(MigrationLine::of),
            }
        };
        let resources = resources.into_iter().map(line).collect();
        Self { resources, unreadable: seen.discovered.unreadable.clone() }
    }
}

/// A version where its hash is known to be one; otherwise the hash.
fn stored_as(seen: &Overview, resource: &Resource, state: Option<&State>) -> Vec<String> {
    let kind = seen.discovered.served.get(resource).map(|served| served.kind.as_str());
    let name = |version: &StoredVersion| match version {
        StoredVersion::Known(hash) => seen.discovered.names.name(resource, kind, hash),
        StoredVersion::Unknown => None,
    };
    let persisted = state.into_iter().flat_map(|state| &state.persisted);
    persisted.map(|version| name(version).unwrap_or_else(|| version.to_string())).collect()
}

impl Show for StateList {
    const KIND: &'static str = "StorageStateList";

    fn table(&self, wide: bool) -> String {
        let mut header =
            vec!["RESOURCE", "STORED AS", "SETTLED", "MIGRATION", "MIGRATED", "FAILED", "LOOKED AT"];
        if wide {
            header.extend(["HASHES", "CURRENT", "MESSAGE"]);
        }
        let rows: Vec<Vec<String>> = self.resources.iter().map(|line| line.row(wide)).collect();
        let mut text = table(&header, &rows);
        for stuck in
            self.resources.iter().filter_map(|line| line.migration.as_ref()).filter(|it| it.is_stuck())
        {
            text.push_str(&format!("{}: {}\n", stuck.resource, stuck.message));
        }
        for (group, why) in &self.unreadable {
            text.push_str(&format!("{group} could not be read: {why}\n"));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.resources.iter().map(|line| line.resource.clone()).collect()
    }
}

impl StateLine {
    fn row(&self, wide: bool) -> Vec<String> {
        let dash = || "-".to_owned();
        let joined = |list: &[String]| if list.is_empty() { dash() } else { list.join(",") };
        let looked_at = match self.heartbeat_age_seconds {
            None => dash(),
            Some(age) if age < 0 => format!("{} ahead", seconds(-age)),
            Some(age) => format!("{} ago", seconds(age)),
        };
        let migration = self.migration.as_ref();
        let of =
            |number: fn(&Progress) -> u64| migration.map_or_else(dash, |it| number(&it.progress).to_string());
        let mut row = vec![
            self.resource.clone(),
            joined(&self.stored_as),
            if self.settled { "yes" } else { "no" }.to_owned(),
            migration.map_or_else(dash, |it| it.phase.to_owned()),
            of(|progress| progress.migrated),
            of(|progress| progress.failed),
            match (self.heartbeat_is_old, self.served) {
                (_, false) => format!("{looked_at} (not served)"),
                (true, true) => format!("{looked_at} (too long)"),
                (false, true) => looked_at,
            },
        ];
        if wide {
            let hashes: Vec<String> = self.persisted.iter().map(ToString::to_string).collect();
            row.push(joined(&hashes));
            row.push(self.current.as_ref().map_or_else(dash, ToString::to_string));
            row.push(migration.map_or_else(dash, |it| it.message.clone()));
        }
        row
    }
}

fn seconds(count: i64) -> String {
    Period::from(Duration::from_secs(count.unsigned_abs())).to_string()
}

impl MigrationLine {
    fn of(migration: &StorageVersionMigration) -> Self {
        let status = migration.status.clone().unwrap_or_default();
        let condition = status.conditions.into_iter().find(|it| it.status == "True");
        Self {
            name: migration.metadata.name.clone().unwrap_or_default(),
            resource: migration.spec.resource.resource().to_string(),
            phase: phase(migration.phase()),
            reason: condition.as_ref().map(|it| it.reason.clone()).unwrap_or_default(),
            message: condition.map(|it| it.message).unwrap_or_default(),
            progress: status.progress.unwrap_or_default(),
            failures: status.failures,
        }
    }

    /// It runs, and says what it waits for.
    fn is_stuck(&self) -> bool {
        self.phase == "Running" && !self.reason.is_empty() && self.reason != MIGRATING
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

/// A migration in one line, for a person who waits for it.
pub fn line(migration: &StorageVersionMigration) -> String {
    let line = MigrationLine::of(migration);
    let Progress { migrated, remaining, per_second, seconds_left, .. } = line.progress;
    let mut text = format!("{}: {}", line.resource, line.phase.to_lowercase());
    if line.phase == "Running" && !line.is_stuck() {
        text.push_str(&format!(", {migrated} migrated"));
        if let Some(remaining) = remaining {
            text.push_str(&format!(", {remaining} left"));
        }
        text.push_str(&format!(", {per_second}/s"));
        if let Some(left) = seconds_left {
            text.push_str(&format!(", {} to go", Period::from(Duration::from_secs(left))));
        }
    } else if !line.message.is_empty() {
        text.push_str(&format!(": {}", line.message));
    }
    text
}

/// Migrations that were asked for by hand.
#[derive(Serialize)]
pub struct MigrationList {
    migrations: Vec<MigrationLine>,
}

impl MigrationList {
    pub fn of(migrations: &[StorageVersionMigration]) -> Self {
        let mut migrations: Vec<MigrationLine> = migrations.iter().map(MigrationLine::of).collect();
        migrations.sort_by(|a, b| a.resource.cmp(&b.resource));
        Self { migrations }
    }
}

impl Show for MigrationList {
    const KIND: &'static str = "MigrationList";

    fn table(&self, wide: bool) -> String {
        let mut header = vec!["RESOURCE", "MIGRATION", "MIGRATED", "FAILED"];
        if wide {
            header.extend(["NAME", "MESSAGE"]);
        }
        let row = |line: &MigrationLine| {
            let Progress { migrated, failed, .. } = &line.progress;
            let mut row =
                vec![line.resource.clone(), line.phase.to_owned(), migrated.to_string(), failed.to_string()];
            if wide {
                row.extend([line.name.clone(), line.message.clone()]);
            }
            row
        };
        let mut text = table(&header, &self.migrations.iter().map(row).collect::<Vec<_>>());
        for failure in self.migrations.iter().flat_map(|line| &line.failures) {
            text.push_str(&format!("not written: {failure}\n"));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let name = |line: &MigrationLine| format!("storageversionmigration.migration.k8s.io/{}", line.name);
        self.migrations.iter().map(name).collect()
    }
}

/// How each resource stood when an offline migration was over.
#[derive(Serialize)]
pub struct SettledView {
    resources: Vec<SettledLine>,
}

#[derive(Serialize)]
struct SettledLine {
    resource: String,
    outcome: &'static str,
}

impl SettledView {
    pub fn of(settled: &Settled) -> Self {
        let outcomes = [
            ("Migrated", &settled.settled),
            ("Failed", &settled.failed),
            ("Disputed", &settled.disputed),
            ("Unfinished", &settled.unfinished),
        ];
        let lines = outcomes.into_iter().flat_map(|(outcome, resources)| {
            resources.iter().map(move |it| SettledLine { resource: it.to_string(), outcome })
        });
        let mut resources: Vec<SettledLine> = lines.collect();
        resources.sort_by(|a, b| a.resource.cmp(&b.resource));
        Self { resources }
    }
}

impl Show for SettledView {
    const KIND: &'static str = "SettledList";

    fn table(&self, _wide: bool) -> String {
        let row = |line: &SettledLine| vec![line.resource.clone(), line.outcome.to_owned()];
        table(&["RESOURCE", "OUTCOME"], &self.resources.iter().map(row).collect::<Vec<_>>())
    }

    fn names(&self) -> Vec<String> {
        self.resources.iter().map(|line| line.resource.clone()).collect()
    }
}

/// The gate's answer.
#[derive(Serialize)]
pub struct GateView {
    safe: bool,
    blockers: Vec<BlockerLine>,
}

#[derive(Serialize)]
struct BlockerLine {
    resource: String,
    reason: String,
}

impl GateView {
    pub fn of(gate: &Gate) -> Self {
        let line = |blocker: &Blocker| BlockerLine {
            resource: blocker.resource.to_string(),
            reason: blocker.reason.to_string(),
        };
        Self { safe: gate.blockers.is_empty(), blockers: gate.blockers.iter().map(line).collect() }
    }
}

impl Show for GateView {
    const KIND: &'static str = "StorageGate";

    fn table(&self, _wide: bool) -> String {
        if self.safe {
            return "safe: every version that objects may be stored in is supported there\n".to_owned();
        }
        let row = |line: &BlockerLine| vec![line.resource.clone(), line.reason.clone()];
        let rows: Vec<Vec<String>> = self.blockers.iter().map(row).collect();
        format!(
            "not safe, because of {} of the resources:\n{}",
            rows.len(),
            table(&["RESOURCE", "WHY"], &rows)
        )
    }

    fn names(&self) -> Vec<String> {
        self.blockers.iter().map(|line| line.resource.clone()).collect()
    }
}
