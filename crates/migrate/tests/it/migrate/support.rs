//! Small worlds for migrations: a scratch directory and Rust migrations made of closures.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use migrate::{Data, Failure, Input, Migration, Output, Registry, Target, Work};
use serde_json::{Map, Value};

pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("holdfast-migrate-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.0.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Body = dyn Fn(&Input<'_>, &Work<'_>) -> Result<Output, Failure> + Send + Sync;

pub struct Plain {
    name: String,
    body: Box<Body>,
}

impl Migration for Plain {
    fn name(&self) -> &str {
        &self.name
    }
    fn digest(&self) -> &str {
        &self.name
    }
    fn migrate(&self, input: &Input<'_>, work: &Work<'_>) -> Result<Output, Failure> {
        (self.body)(input, work)
    }
}

pub fn plain(
    name: &str,
    body: impl Fn(&Input<'_>, &Work<'_>) -> Result<Output, Failure> + Send + Sync + 'static,
) -> Box<dyn Migration> {
    Box::new(Plain { name: name.to_owned(), body: Box::new(body) })
}

/// A migration that changes values only.
pub fn values(
    name: &str,
    change: impl Fn(&mut Map<String, Value>) + Send + Sync + 'static,
) -> Box<dyn Migration> {
    plain(name, move |input, _| {
        let mut values = input.values.clone();
        change(&mut values);
        Ok(values.into())
    })
}

pub fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub fn data(version: u32, values: Value) -> Data {
    Data { version, applied: vec![], values: map(values) }
}

pub fn appliance(migrations: Vec<(u32, Box<dyn Migration>)>) -> Registry {
    let mut registry = Registry::new();
    for (version, migration) in migrations {
        registry.register(Target::Appliance, version, migration).unwrap();
    }
    registry
}

pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return vec![] };
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
