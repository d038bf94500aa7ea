//! Taking data along a path, one migration after the other, in memory.
//!
//! The input is only read. A failure anywhere leaves nothing: neither values, nor a new version, nor staged files.

use std::any::Any;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use logic::migrate::{Applied, KeyChange, Known, Secrets, Target, diff};
use program::Protections;
use serde_json::{Map, Value};

use crate::contract::{Failure, Input, Output, Work};
use crate::error::{Error, Told};
use crate::options::Options;
use crate::registry::Registry;
use crate::stores::{NewStore, Stores};

/// Data with its version, and what was applied to it so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    pub version: u32,
    pub applied: Vec<Applied>,
    pub values: Map<String, Value>,
}

/// What came out. Nothing of it is persisted yet.
#[derive(Debug)]
pub struct Migrated {
    pub data: Data,
    /// What each migration of the path did, in order. Empty: the data already had the newest version.
    pub steps: Vec<Step>,
    /// New store files, still in the scratch directory: see [`Migrated::install_stores`].
    pub stores: Vec<NewStore>,
}

/// One migration that was carried out. Secrets are nowhere in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub version: u32,
    pub name: String,
    pub digest: String,
    pub changes: Vec<KeyChange>,
    pub notes: Vec<String>,
    /// Functions that no longer apply to this data.
    pub unavailable: Vec<String>,
    /// Names of the store files that it made.
    pub stores: Vec<String>,
    /// What it was kept in, if it is an executable.
    pub protections: Option<Protections>,
}

impl Migrated {
    pub fn changed(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Functions that no longer apply, over all steps.
    pub fn unavailable(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().flat_map(|step| &step.unavailable).map(String::as_str)
    }
}

impl Registry {
    /// Migrates `data` to the newest version. `stores` is the directory with the data's stores; `scratch` is a directory
    /// that only this call uses: it is emptied first, and staged store files stay in it until they are installed.
    pub fn run(
        &self,
        target: Target,
        data: &Data,
        stores: Option<&Path>,
        scratch: &Path,
        options: &Options<'_>,
    ) -> Result<Migrated, Error> {
        let path = self.plan(target, data.version, &data.applied).map_err(Error::Refused)?;
        let mut run = Run {
            registry: self,
            target,
            options,
            scratch,
            stores: Stores::new(stores),
            secrets: Secrets::of(&data.values),
            steps: Vec::with_capacity(path.steps.len()),
        };
        if !path.is_empty() {
            run.clear()?;
        }
        let mut now: Option<Map<String, Value>> = None;
        for known in &path.steps {
            match run.step(known, now.as_ref().unwrap_or(&data.values)) {
                Ok(values) => now = Some(values),
                Err(error) => {
                    let _ = run.clear();
                    return Err(error);
                }
            }
        }
        let mut applied = data.applied.clone();
        applied
            .extend(path.steps.iter().map(|it| Applied { version: it.version, digest: it.digest.clone() }));
        Ok(Migrated {
            data: Data { version: path.to, applied, values: now.unwrap_or_else(|| data.values.clone()) },
            steps: run.steps,
            stores: run.stores.made,
        })
    }
}

struct Run<'a> {
    registry: &'a Registry,
    target: Target,
    options: &'a Options<'a>,
    scratch: &'a Path,
    stores: Stores<'a>,
    secrets: Secrets,
    steps: Vec<Step>,
}

impl Run<'_> {
    fn step(&mut self, known: &Known, values: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        let (target, version, name) = (self.target, known.version, || known.name.clone());
        let place = self.place(version);
        let work = Work::new(place.join("work"), self.stores.places(), self.options);
        if work.is_stopped() {
            return Err(Error::Stopped { target, version });
        }
        let view = self.stores.view(&place.join("stores"));
        let view = view.map_err(|source| Error::Scratch { path: place.clone(), source })?;
        let input = Input { target, from: version - 1, to: version, values, stores: view.as_deref() };
        let output = match self.call(known, &input, &work) {
            Ok(output) => output,
            Err(_) if work.is_stopped() => return Err(Error::Stopped { target, version }),
            Err(failure) => {
                let hint = failure.downcast_ref().map(crate::executable::ExecutableError::hint);
                let source = Told::by(&failure, &self.secrets).with_hint(hint);
                return Err(Error::Failed { target, version, name: name(), source });
            }
        };
        let stores = if work.was_used() {
            let collected = self.stores.collect(&work.new_stores_path(), version, &self.options.limits);
            collected.map_err(|source| Error::Stores {
                target,
                version,
                name: name(),
                source: source.into(),
            })?
        } else {
            vec![]
        };
        self.secrets.learn(&output.values);
        let hidden = |texts: Vec<String>| texts.iter().map(|text| self.secrets.hide(text)).collect();
        self.steps.push(Step {
            version,
            name: name(),
            digest: known.digest.clone(),
            changes: diff(values, &output.values),
            notes: hidden(output.notes),
            unavailable: hidden(output.unavailable),
            stores,
            protections: output.protections,
        });
        Ok(output.values)
    }

    /// A migration that panics has failed; the program that runs it goes on.
    fn call(&self, known: &Known, input: &Input<'_>, work: &Work<'_>) -> Result<Output, Failure> {
        let migration = self.registry.get(self.target, known.version).ok_or("it is not registered")?;
        catch_unwind(AssertUnwindSafe(|| migration.migrate(input, work)))
            .unwrap_or_else(|panic| Err(format!("it panicked: {}", panic_text(panic.as_ref())).into()))
    }

    fn place(&self, version: u32) -> PathBuf {
        self.scratch.join(version.to_string())
    }

    fn clear(&self) -> Result<(), Error> {
        let cleared = match fs::remove_dir_all(self.scratch) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            // Migrations may leave values there, and values may be secret.
            _ => fs::DirBuilder::new().recursive(true).mode(0o700).create(self.scratch),
        };
        cleared.map_err(|source| Error::Scratch { path: self.scratch.to_owned(), source })
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without saying why")
}
