//! Making, starting, stopping and removing workloads.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use disk::Operation;
use disk::durable::{rename_durably, sync_dir};
use logic::period::Period;
use logic::upgrade::ApplianceName;
use serde_json::Value;

use super::MOST;
use super::error::Error;
use super::record::{FILE, Record};
use crate::layout::Layout;
use crate::release::{SlotPayload, Words};
use crate::supervise::{self, Launcher, Place, Program};

/// Between SIGTERM and SIGKILL.
const STOP_TIMEOUT: Period = Period::seconds(10);

/// Where a workload lies, and is supervised.
pub fn place(layout: &Layout, name: &ApplianceName) -> Place {
    Place::new(&layout.workloads().join(name.as_str()))
}

/// Takes its place among the others in one step.
pub fn create(layout: &Layout, record: &Record) -> Result<(), Error> {
    let name = || record.name.to_string();
    if record.command.is_empty() {
        return Err(Error::NoCommand { name: name() });
    }
    if !layout.release(&record.release.id).is_dir() {
        return Err(Error::MakerGone { name: name(), image: record.release.id.clone() });
    }
    if list(layout)?.len() >= MOST {
        return Err(Error::TooMany(MOST));
    }
    let workloads = layout.workloads();
    let incoming = workloads.join(format!("{}new-{}", disk::RESERVED_PREFIX, std::process::id()));
    disk::tree::remove(&incoming)?;
    make_dirs(&incoming.join("data"))?;
    record.write(&incoming)?;
    sync_dir(&incoming.join("data"))?;
    sync_dir(layout.root())?;
    let place = workloads.join(record.name.as_str());
    // Where one was being removed.
    if place.is_dir() && Record::read(&place)?.is_none() {
        disk::tree::remove(&place)?;
    }
    rename_durably(&incoming, &place).map_err(|error| {
        let _ = disk::tree::remove(&incoming);
        match error {
            disk::Error::Exists { .. } => Error::Exists { name: name() },
            error => error.into(),
        }
    })
}

fn make_dirs(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| disk::Error::io(Operation::Create, path, error).into())
}

pub fn load(layout: &Layout, name: &ApplianceName) -> Result<Record, Error> {
    let record = Record::read(place(layout, name).dir())?;
    record.ok_or_else(|| Error::NotThere { name: name.to_string() })
}

/// By name.
pub fn list(layout: &Layout) -> Result<Vec<Record>, Error> {
    let workloads = layout.workloads();
    let failed = |error| disk::Error::io(Operation::List, &workloads, error);
    let entries = match fs::read_dir(&workloads) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(failed(error).into()),
    };
    let mut records = Vec::new();
    for entry in entries.take(2 * MOST) {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().ok().and_then(|name| ApplianceName::parse(&name).ok());
        if name.is_some() {
            records.extend(Record::read(&entry.path())?);
        }
    }
    records.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(records)
}

pub fn start(layout: &Layout, name: &ApplianceName, launcher: &Launcher) -> Result<(), Error> {
    let record = load(layout, name)?;
    if !layout.release(&record.release.id).is_dir() {
        return Err(Error::MakerGone { name: name.to_string(), image: record.release.id });
    }
    Ok(supervise::power_on(&place(layout, name), launcher)?)
}

pub fn stop(layout: &Layout, name: &ApplianceName) -> Result<(), Error> {
    load(layout, name)?;
    Ok(supervise::power_off(&place(layout, name))?)
}

pub fn is_running(layout: &Layout, name: &ApplianceName) -> Result<bool, Error> {
    Ok(supervise::is_on(&place(layout, name))?)
}

pub fn log(layout: &Layout, name: &ApplianceName) -> PathBuf {
    place(layout, name).log()
}

/// Stops it first. Nothing there is an error, so that a misspelt name is not taken for done.
pub fn remove(layout: &Layout, name: &ApplianceName) -> Result<(), Error> {
    stop(layout, name)?;
    let dir = place(layout, name).dir().to_owned();
    let record = dir.join(FILE);
    // First it is not one any more, then it goes.
    fs::remove_file(&record).map_err(|error| disk::Error::io(Operation::Remove, &record, error))?;
    sync_dir(&dir)?;
    disk::tree::remove(&dir)?;
    Ok(sync_dir(&layout.workloads())?)
}

/// What a supervisor runs for the workload in `dir`, if there is one: always from the image that made it.
pub(crate) fn program(dir: &Path) -> crate::Result<Option<Program>> {
    let Some(record) = Record::read(dir)? else { return Ok(None) };
    let root = dir.parent().and_then(Path::parent).unwrap_or(dir);
    let release = Layout::at(root).release(&record.release.id);
    let data = dir.join("data");
    let mut words = Words::default();
    words.set_path("release", &release).set_path("data", &data).set_path("run", &dir.join("run"));
    for (key, value) in &record.data {
        match value {
            Value::String(text) => words.set(&format!("config.{key}"), text.clone()),
            Value::Number(_) | Value::Bool(_) => words.set(&format!("config.{key}"), value.to_string()),
            _ => &mut words,
        };
    }
    let payload = SlotPayload {
        command: record.command,
        environment: BTreeMap::new(),
        stop_timeout: STOP_TIMEOUT,
        kubernetes: None,
    };
    let configuration = Value::Object(record.data).to_string().into_bytes();
    Program::new(record.release.id.as_str(), &release, data, &payload, &words, configuration).map(Some)
}
