//! How appliances are shown.

use ::upgrade::commands::{Overview, WorkloadNote};
use logic::upgrade::{Kind, State, UNPROVEN, Way};
use serde::Serialize;

use crate::output::{Show, fields, table};

#[derive(Serialize)]
pub struct ApplianceList {
    pub appliances: Vec<Overview>,
}

fn power(one: &Overview) -> String {
    if one.on { "on".to_owned() } else { "off".to_owned() }
}

fn release(one: &Overview) -> String {
    one.release.as_ref().map_or_else(|| "-".to_owned(), |image| image.version.to_string())
}

/// "up to date", "upgradeable to X", "upgrading (step n of m)", …
pub fn state(one: &Overview) -> String {
    if one.newer_than_program {
        return "newer than this program".to_owned();
    }
    match &one.state {
        None => "unknown".to_owned(),
        Some(State::UpToDate) => "up to date".to_owned(),
        Some(State::UpgradeableTo { release }) => format!("upgradeable to {release}"),
        Some(State::Upgrading { to, step, number, of, way }) => {
            let verb = if *way == Way::Back { "undoing the upgrade" } else { "upgrading" };
            format!("{verb} to {to} (step {number} of {of}: {step})")
        }
        Some(State::Interrupted { to, step, .. }) => {
            let at = step.map(|step| format!(" at {step}")).unwrap_or_default();
            format!("interrupted on the way to {to}{at}")
        }
        Some(State::NeedsHands { to, why }) => format!("needs hands, on the way back from {to}: {why}"),
    }
}

fn rollback(one: &Overview) -> String {
    one.rollback_to.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)
}

impl Show for ApplianceList {
    const KIND: &'static str = "ApplianceList";

    fn table(&self, wide: bool) -> String {
        let mut header = vec!["NAME", "POWER", "RELEASE", "STATE", "ROLLBACK TO"];
        if wide {
            header.extend(["BACKEND", "DATA", "TROUBLE"]);
        }
        let row = |one: &Overview| {
            let mut row = vec![one.name.to_string(), power(one), release(one), state(one), rollback(one)];
            if wide {
                let data = one.data_version.map_or_else(|| "-".to_owned(), |version| version.to_string());
                row.extend([one.backend.name().to_owned(), data, one.trouble.join("; ")]);
            }
            row
        };
        table(&header, &self.appliances.iter().map(row).collect::<Vec<_>>())
    }

    fn names(&self) -> Vec<String> {
        self.appliances.iter().map(|one| one.name.to_string()).collect()
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub struct ApplianceView(pub Overview);

impl Show for ApplianceView {
    const KIND: &'static str = "Appliance";

    fn table(&self, wide: bool) -> String {
        let one = &self.0;
        let mut rows = vec![
            ("name", one.name.to_string()),
            ("backend", one.backend.name().to_owned()),
            ("power", power(one)),
            ("release", release(one)),
            ("state", state(one)),
            ("rollback to", rollback(one)),
        ];
        if let Some(version) = one.data_version {
            rows.push(("data version", version.to_string()));
        }
        if let Some(configuration) = &one.configuration {
            rows.push(("configuration", configuration.to_string()));
        }
        if wide {
            rows.push(("images", one.images.join(", ")));
            rows.push(("snapshots", one.snapshots.join(", ")));
        }
        rows.extend(one.trouble.iter().map(|trouble| ("trouble", trouble.clone())));
        let mut text = fields(&rows);
        if !one.workloads.is_empty() {
            text.push('\n');
            text.push_str(&workloads(&one.workloads));
        }
        if !one.history.is_empty() {
            let shown = if wide { one.history.len() } else { 5 };
            let last = one.history.iter().rev().take(shown);
            let rows: Vec<Vec<String>> = last
                .map(|entry| {
                    let kind = match entry.kind {
                        Kind::Upgrade => "upgrade",
                        Kind::Rollback => "rollback",
                    };
                    let end = match (entry.committed, entry.unproven) {
                        (true, false) => "done".to_owned(),
                        (true, true) => format!("done; {UNPROVEN}"),
                        (false, _) => format!("undone: {}", entry.why),
                    };
                    vec![
                        entry.time.clone(),
                        kind.to_owned(),
                        entry.from.to_string(),
                        entry.to.to_string(),
                        end,
                    ]
                })
                .collect();
            text.push('\n');
            text.push_str(&table(&["WHEN", "WHAT", "FROM", "TO", "END"], &rows));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.name.to_string()]
    }
}

pub fn workloads(notes: &[WorkloadNote]) -> String {
    let row = |note: &WorkloadNote| {
        let data = match note.read_as {
            Some(read_as) if read_as != note.data_version => {
                format!("{} read as {read_as}", note.data_version)
            }
            _ => note.data_version.to_string(),
        };
        let limits = match (&note.trouble, note.unavailable.is_empty()) {
            (Some(trouble), _) => trouble.clone(),
            (None, true) => String::new(),
            (None, false) => format!("no longer: {}", note.unavailable.join(", ")),
        };
        let power = if note.on { "on" } else { "off" };
        vec![note.name.clone(), power.to_owned(), note.made_by.to_string(), data, limits]
    };
    table(&["WORKLOAD", "POWER", "MADE BY", "DATA", "LIMITS"], &notes.iter().map(row).collect::<Vec<_>>())
}
