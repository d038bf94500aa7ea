//! The migrations that a program knows: one per target and version.

use std::collections::BTreeMap;
use std::path::Path;

use logic::migrate::{Applied, FIRST_VERSION, Known, Refusal, Target, path};

use crate::contract::Migration;
use crate::discover;
use crate::error::RegistryError;
use crate::executable::Executable;

#[derive(Default)]
pub struct Registry {
    migrations: BTreeMap<(Target, u32), Box<dyn Migration>>,
    stated: BTreeMap<Target, u32>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = self.migrations.iter().map(|((target, version), what)| (target, version, what.name()));
        f.debug_list().entries(known).finish()
    }
}

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the migration of `target` data *to* `version`.
    pub fn register(
        &mut self,
        target: Target,
        version: u32,
        migration: Box<dyn Migration>,
    ) -> Result<(), RegistryError> {
        if version <= FIRST_VERSION {
            return Err(RegistryError::BadVersion { target, version });
        }
        if let Some(first) = self.migrations.get(&(target, version)) {
            let (first, second) = (first.name().to_owned(), migration.name().to_owned());
            return Err(RegistryError::Duplicate { target, version, first, second });
        }
        self.migrations.insert((target, version), migration);
        Ok(())
    }

    /// Adds the executables of a release's `migrations/` directory; says how many. No directory: none.
    pub fn discover(&mut self, dir: &Path) -> Result<usize, RegistryError> {
        let found = discover::find(dir)?;
        let count = found.len();
        for found in found {
            let named = found.named.clone();
            self.register(named.target, named.version, Box::new(Executable::new(found)))?;
        }
        Ok(count)
    }

    /// The release says itself which version its data has, although it ships no migration to it.
    pub fn state_newest(&mut self, target: Target, version: u32) {
        self.stated.insert(target, version);
    }

    /// The version that data has after all migrations.
    pub fn newest(&self, target: Target) -> u32 {
        let stated = self.stated.get(&target).copied().unwrap_or(FIRST_VERSION);
        self.of(target).map(|(version, _)| version).fold(stated.max(FIRST_VERSION), u32::max)
    }

    pub fn known(&self, target: Target) -> Vec<Known> {
        let known = |(version, migration): (u32, &dyn Migration)| Known {
            version,
            digest: migration.digest().to_owned(),
            name: migration.name().to_owned(),
        };
        self.of(target).map(known).collect()
    }

    /// The migrations that lead from version `from` to the newest, or why there is no such path.
    pub fn plan(
        &self,
        target: Target,
        from: u32,
        applied: &[Applied],
    ) -> Result<logic::migrate::Path, Refusal> {
        path(target, from, applied, &self.known(target), self.newest(target))
    }

    pub(crate) fn get(&self, target: Target, version: u32) -> Option<&dyn Migration> {
        self.migrations.get(&(target, version)).map(AsRef::as_ref)
    }

    fn of(&self, target: Target) -> impl Iterator<Item = (u32, &dyn Migration)> {
        self.migrations
            .range((target, 0)..=(target, u32::MAX))
            .map(|((_, version), it)| (*version, it.as_ref()))
    }
}
