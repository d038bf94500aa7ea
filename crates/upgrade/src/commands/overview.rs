//! How appliances stand, for people and programs.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use logic::migrate::{Applied, Target};
use logic::upgrade::{ApplianceName, Image, ReleaseVersion, State, rollback_to, state};
use migrate::Data;
use serde::Serialize;
use serde_json::Value;

use crate::appliance::{Appliance, BackendKind, names};
use crate::error::{Error, Result};
use crate::history::{self, Entry};
use crate::settings::Settings;
use crate::transaction::chain;
use crate::{migration, release, supervise, workload};

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    pub name: ApplianceName,
    pub backend: BackendKind,
    pub release: Option<Image>,
    pub on: bool,
    pub wanted_on: bool,
    #[serde(flatten)]
    pub state: Option<State>,
    pub rollback_to: Option<ReleaseVersion>,
    pub data_version: Option<u32>,
    pub applied: Vec<Applied>,
    /// Secrets hidden.
    pub configuration: Option<Value>,
    pub images: Vec<String>,
    pub snapshots: Vec<String>,
    pub workloads: Vec<WorkloadNote>,
    pub history: Vec<Entry>,
    /// What could not be found out, and why.
    pub trouble: Vec<String>,
    /// It was written by a newer Holdfast.
    pub newer_than_program: bool,
}

/// A workload, as a release sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadNote {
    pub name: String,
    pub made_by: ReleaseVersion,
    pub on: bool,
    /// On disk; it stays so.
    pub data_version: u32,
    /// As it is read.
    pub read_as: Option<u32>,
    /// Functions that no longer apply to it.
    pub unavailable: Vec<String>,
    pub trouble: Option<String>,
}

/// All appliances, by name. One that cannot be read is in the list, with its trouble.
pub fn list(settings: &Settings, offered: Option<&ReleaseVersion>) -> Result<Vec<Overview>> {
    let names = names(&settings.directory)?;
    Ok(names.into_iter().map(|name| one(settings, name, offered, false)).collect())
}

pub fn inspect(
    settings: &Settings,
    name: &ApplianceName,
    offered: Option<&ReleaseVersion>,
) -> Result<Overview> {
    match Appliance::open(settings, name) {
        Err(error @ Error::NoAppliance { .. }) => Err(error),
        _ => Ok(one(settings, name.clone(), offered, true)),
    }
}

fn one(settings: &Settings, name: ApplianceName, offered: Option<&ReleaseVersion>, all: bool) -> Overview {
    let mut overview = Overview {
        name,
        backend: BackendKind::Slot,
        release: None,
        on: false,
        wanted_on: false,
        state: None,
        rollback_to: None,
        data_version: None,
        applied: vec![],
        configuration: None,
        images: vec![],
        snapshots: vec![],
        workloads: vec![],
        history: vec![],
        trouble: vec![],
        newer_than_program: false,
    };
    let appliance = match Appliance::open(settings, &overview.name) {
        Ok(appliance) => appliance,
        Err(error) => {
            overview.newer_than_program = matches!(error, Error::NewerThanProgram { .. });
            overview.trouble.push(chain(&error));
            return overview;
        }
    };
    (overview.backend, overview.wanted_on) = (appliance.identity.backend, appliance.identity.wanted_on);
    // Each on its own: what is damaged must not hide the rest.
    let parts = [
        look_at_machine(&appliance, &mut overview),
        look_at_books(&appliance, &mut overview, offered),
        look_at_data(&appliance, &mut overview),
        if all { look_at_rest(&appliance, &mut overview) } else { Ok(()) },
    ];
    for error in parts.into_iter().filter_map(Result::err) {
        overview.newer_than_program |= matches!(error, Error::NewerThanProgram { .. });
        overview.trouble.push(chain(&error));
    }
    overview
}

fn look_at_machine(appliance: &Appliance, overview: &mut Overview) -> Result<()> {
    let description = appliance.backend.describe()?;
    overview.on = description.on;
    overview.images = description.images.iter().map(ToString::to_string).collect();
    overview.snapshots = description.snapshots.iter().map(|snapshot| snapshot.id.to_string()).collect();
    overview.release = Some(appliance.current()?);
    if overview.wanted_on && !overview.on {
        overview.trouble.push("it should run, and does not: `appliance start` starts it".to_owned());
    }
    if overview.on && appliance.identity.backend == BackendKind::Slot {
        let status = supervise::status(&supervise::Place::new(appliance.layout.root()))?;
        if let Some(status) = status.filter(|status| status.restarts > 0) {
            let last = status.last_exit.unwrap_or_default();
            overview.trouble.push(format!("it was started again {} times: {last}", status.restarts));
        }
    }
    Ok(())
}

fn look_at_books(
    appliance: &Appliance,
    overview: &mut Overview,
    offered: Option<&ReleaseVersion>,
) -> Result<()> {
    // The lock first: a process that ends between the two looks is then taken for alive, not for interrupted.
    let alive = appliance.is_held()?;
    let transaction = appliance.transaction()?;
    if let Some(current) = &overview.release {
        overview.state = Some(state(current, transaction.as_ref(), alive, offered));
        let point = appliance.point()?;
        overview.rollback_to = rollback_to(point.as_ref(), current).cloned();
    }
    Ok(())
}

fn look_at_data(appliance: &Appliance, overview: &mut Overview) -> Result<()> {
    let configuration = appliance.configuration()?;
    overview.data_version = Some(configuration.data_version);
    overview.configuration = Some(configuration.shown());
    overview.applied = configuration.applied;
    Ok(())
}

fn look_at_rest(appliance: &Appliance, overview: &mut Overview) -> Result<()> {
    overview.history = history::read(&appliance.layout)?;
    if let Some(current) = &overview.release {
        let (release, never) = (appliance.layout.release(&current.id), AtomicBool::new(false));
        overview.workloads = workload_notes(appliance, &release, &current.version, &never)?;
    }
    Ok(())
}

/// How the release at `release` sees the appliance's workloads.
pub(super) fn workload_notes(
    appliance: &Appliance,
    release: &Path,
    version: &ReleaseVersion,
    stop: &AtomicBool,
) -> Result<Vec<WorkloadNote>> {
    let layout = &appliance.layout;
    let manifest = release::read(release)?;
    let newest = migration::registry(release, &manifest)?.newest(Target::Workload);
    let mut notes = Vec::new();
    for record in workload::list(layout)? {
        let data = Data {
            version: record.data_version,
            applied: record.applied.clone(),
            values: record.data.clone(),
        };
        let view = migration::workload_view_at(layout, release, &data, stop);
        let mut note = WorkloadNote {
            name: record.name.to_string(),
            made_by: record.release.version.clone(),
            on: workload::is_running(layout, &record.name)?,
            data_version: record.data_version,
            read_as: None,
            unavailable: vec![],
            trouble: None,
        };
        match view {
            Ok(view) => (note.read_as, note.unavailable) = (Some(view.version), view.unavailable),
            Err(error) => note.trouble = Some(format!("{version} cannot read it: {}", chain(&error))),
        }
        debug_assert!(note.read_as.is_none_or(|read_as| read_as <= newest));
        notes.push(note);
    }
    Ok(notes)
}
