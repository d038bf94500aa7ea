//! The data of an appliance and of its workloads, in the form that a release wants.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use logic::migrate::Target;
use logic::upgrade::Image;
use migrate::{Data, Migrated, Options, Registry};
use serde_json::{Map, Value, json};

use crate::appliance::Appliance;
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::release::{self, MIGRATIONS, Manifest};
use crate::secrets::MARK;
use crate::{kubernetes, transaction};

/// The migrations that a release brings, and the versions that it says its data has.
pub fn registry(release: &Path, manifest: &Manifest) -> Result<Registry> {
    let mut registry = Registry::new();
    registry.discover(&release.join(MIGRATIONS))?;
    let stated = [
        (Target::Appliance, manifest.data_versions.appliance),
        (Target::Workload, manifest.data_versions.workload),
    ];
    for (target, version) in stated {
        if let Some(version) = version {
            registry.state_newest(target, version);
        }
    }
    Ok(registry)
}

fn options<'a>(release: &Path, stop: &'a AtomicBool) -> Options<'a> {
    Options { stop: Some(stop), readable: vec![release.to_owned()], ..Options::default() }
}

/// The configuration with credentials replaced by new ones.
fn with_secrets(values: &Map<String, Value>, secrets: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut values = values.clone();
    for (key, text) in secrets {
        values.insert(key.clone(), json!({ MARK: text }));
    }
    values
}

/// The appliance's data as the release at `release` wants it, in memory; new stores stay in the scratch directory.
pub fn in_memory(
    layout: &Layout,
    release: &Path,
    manifest: &Manifest,
    configuration: &Configuration,
    secrets: &BTreeMap<String, String>,
    stop: &AtomicBool,
) -> Result<Migrated> {
    let data = Data {
        version: configuration.data_version,
        applied: configuration.applied.clone(),
        values: configuration.values.clone(),
    };
    let stores = layout.data();
    let registry = registry(release, manifest)?;
    let mut migrated =
        registry.run(Target::Appliance, &data, Some(&stores), &layout.scratch(), &options(release, stop))?;
    // After the migrations: the new names are those of the new release.
    migrated.data.values = with_secrets(&migrated.data.values, secrets);
    Ok(migrated)
}

/// Writes the migrated data: the new stores first, then the configuration, which says that they are there. Then
/// Kubernetes objects are stored anew, with the new configuration.
pub fn write(
    appliance: &Appliance,
    to: &Image,
    options: &transaction::Options,
    stop: &AtomicBool,
) -> Result<()> {
    let layout = &appliance.layout;
    let release = layout.release(&to.id);
    let manifest = release::read(&release)?;
    let configuration = Configuration::load(layout)?;
    let migrated = in_memory(layout, &release, &manifest, &configuration, &options.secrets, stop)?;
    migrated.install_stores(&layout.data())?;
    let Data { version, applied, values } = migrated.data;
    let configuration = Configuration { release: to.clone(), data_version: version, applied, values };
    configuration.save(layout)?;
    if let Some(kubernetes) = appliance.identity.backend.kubernetes(&manifest) {
        let words = configuration.words(layout, &release);
        kubernetes::migrate(layout, &release, kubernetes, &words, options.kubernetes.as_ref(), stop)?;
    }
    Ok(())
}

/// A workload's data as a release reads it: migrated in memory, never written back.
pub struct WorkloadView {
    pub values: Map<String, Value>,
    pub version: u32,
    /// Functions that no longer apply to it.
    pub unavailable: Vec<String>,
}

pub fn workload_view(layout: &Layout, image: &Image, data: &Data, stop: &AtomicBool) -> Result<WorkloadView> {
    workload_view_at(layout, &layout.release(&image.id), data, stop)
}

/// The same, for a release that is not in its place yet.
pub fn workload_view_at(
    layout: &Layout,
    release: &Path,
    data: &Data,
    stop: &AtomicBool,
) -> Result<WorkloadView> {
    let manifest = release::read(release)?;
    let registry = registry(release, &manifest)?;
    let migrated = registry
        .run(Target::Workload, data, None, &layout.scratch(), &options(release, stop))
        .map_err(Error::from)?;
    let unavailable = migrated.unavailable().map(str::to_owned).collect();
    Ok(WorkloadView { version: migrated.data.version, values: migrated.data.values, unavailable })
}
