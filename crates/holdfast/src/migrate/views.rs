//! How a path of migrations and the state of data are shown.

use ::migrate::{Document, Migrated, Registry, Step};
use logic::migrate::{Applied, KeyChange, Path, Target};
use serde::Serialize;

use crate::output::{Show, fields, table};

/// A path that was walked: for a plan in memory only, for a run to its end.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkView {
    target: Target,
    from: u32,
    to: u32,
    /// `1 → 2 → 3`.
    path: String,
    /// Whether it was written.
    done: bool,
    steps: Vec<StepView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StepView {
    version: u32,
    name: String,
    digest: String,
    changes: Vec<KeyChange>,
    stores: Vec<String>,
    unavailable: Vec<String>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protections: Option<String>,
}

impl WalkView {
    pub fn of(before: &Document, migrated: &Migrated, done: bool) -> Self {
        let from = before.data.version;
        let versions = std::iter::once(from).chain(migrated.steps.iter().map(|step| step.version));
        Self {
            target: before.target,
            from,
            to: migrated.data.version,
            path: versions.map(|version| version.to_string()).collect::<Vec<_>>().join(" → "),
            done,
            steps: migrated.steps.iter().map(StepView::of).collect(),
        }
    }
}

impl StepView {
    fn of(step: &Step) -> Self {
        Self {
            version: step.version,
            name: step.name.clone(),
            digest: step.digest.clone(),
            changes: step.changes.clone(),
            stores: step.stores.clone(),
            unavailable: step.unavailable.clone(),
            notes: step.notes.clone(),
            protections: step.protections.map(|protections| protections.to_string()),
        }
    }

    /// One line each: changed keys, new stores, and what the migration says.
    fn lines(&self) -> Vec<String> {
        let changes = self.changes.iter().map(ToString::to_string);
        let stores = self.stores.iter().map(|name| format!("+ store {name}"));
        let unavailable = self.unavailable.iter().map(|what| format!("no longer available: {what}"));
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        changes.chain(stores).chain(unavailable).chain(notes).collect()
    }
}

impl Show for WalkView {
    const KIND: &'static str = "MigrationWalk";

    fn table(&self, wide: bool) -> String {
        if self.steps.is_empty() {
            return format!("{} data has version {}: nothing to migrate\n", self.target, self.to);
        }
        let verb = if self.done { "was migrated" } else { "would be migrated" };
        let mut text = format!("{} data {verb}: {}\n\n", self.target, self.path);
        let mut rows = Vec::new();
        for step in &self.steps {
            let mut lines = step.lines();
            if wide {
                lines.push(format!("digest: {}", step.digest));
                lines.push(format!("kept in: {}", step.protections.as_deref().unwrap_or("this program")));
            }
            if lines.is_empty() {
                lines.push("nothing".to_owned());
            }
            for (at, line) in lines.into_iter().enumerate() {
                let first = |cell: &str| if at == 0 { cell.to_owned() } else { String::new() };
                rows.push(vec![first(&step.version.to_string()), first(&step.name), line]);
            }
        }
        text.push_str(&table(&["VERSION", "MIGRATION", "CHANGES"], &rows));
        text
    }

    fn names(&self) -> Vec<String> {
        self.steps.iter().map(|step| step.name.clone()).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusView {
    target: Target,
    data_version: u32,
    newest: u32,
    state: State,
    /// What leads to the newest version.
    pending: Vec<String>,
    applied: Vec<AppliedView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    UpToDate,
    Migratable,
    Refused,
}

#[derive(Serialize)]
struct AppliedView {
    #[serde(flatten)]
    applied: Applied,
    /// Whether this release still has it.
    here: bool,
}

impl StatusView {
    pub fn of(document: &Document, registry: &Registry) -> Self {
        let (target, data) = (document.target, &document.data);
        let plan = registry.plan(target, data.version, &data.applied);
        let known = registry.known(target);
        let here = |applied: &Applied| known.iter().any(|known| known.version == applied.version);
        let refusal = plan.as_ref().err();
        Self {
            target,
            data_version: data.version,
            newest: registry.newest(target),
            state: match &plan {
                Ok(path) if path.is_empty() => State::UpToDate,
                Ok(_) => State::Migratable,
                Err(_) => State::Refused,
            },
            refusal: refusal.map(ToString::to_string),
            hint: refusal.map(logic::migrate::Refusal::hint),
            pending: plan.iter().flat_map(|path: &Path| &path.steps).map(|step| step.name.clone()).collect(),
            applied: data
                .applied
                .iter()
                .map(|applied| AppliedView { applied: applied.clone(), here: here(applied) })
                .collect(),
        }
    }
}

impl Show for StatusView {
    const KIND: &'static str = "MigrationStatus";

    fn table(&self, wide: bool) -> String {
        let state = match (self.state, &self.refusal) {
            (State::UpToDate, _) => "up to date".to_owned(),
            (State::Migratable, _) => format!("{} to run: {}", self.pending.len(), self.pending.join(", ")),
            (State::Refused, why) => format!("refused: {}", why.as_deref().unwrap_or_default()),
        };
        let mut rows = vec![
            ("target", self.target.to_string()),
            ("data version", self.data_version.to_string()),
            ("newest", self.newest.to_string()),
            ("state", state),
        ];
        rows.extend(self.hint.clone().map(|hint| ("way out", hint)));
        let mut text = fields(&rows);
        if wide && !self.applied.is_empty() {
            let rows = self.applied.iter().map(|it| {
                let here = if it.here { "yes" } else { "no" };
                vec![it.applied.version.to_string(), it.applied.digest.clone(), here.to_owned()]
            });
            text.push('\n');
            text.push_str(&table(&["APPLIED", "DIGEST", "HERE"], &rows.collect::<Vec<_>>()));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.pending.clone()
    }
}
