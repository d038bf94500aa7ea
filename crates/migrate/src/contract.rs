//! What a migration is: values of version n-1 in, values of version n out.
//!
//! It must not persist anything: what it returns may be thrown away, and the same input may be migrated again. The only
//! place it may write to is its own directory.

use std::cell::OnceCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use logic::migrate::Target;
use program::Protections;
use serde_json::{Map, Value};

use crate::options::Options;

/// Whatever a migration says went wrong: `?` and `"text".into()` both make one.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

pub trait Migration: Send + Sync {
    /// A few words for people: `rename-port`.
    fn name(&self) -> &str;

    /// Identifies what the migration does. It is recorded with the data: a migration that was applied must not change
    /// afterwards. For an executable it is the digest of the file; a Rust type names its own, and never changes it
    /// once it was released.
    fn digest(&self) -> &str;

    fn migrate(&self, input: &Input<'_>, work: &Work<'_>) -> Result<Output, Failure>;
}

/// What a migration works on. None of it may be changed.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    pub target: Target,
    pub from: u32,
    /// Always `from + 1`.
    pub to: u32,
    pub values: &'a Map<String, Value>,
    /// A directory with the stores: those of the data, and what earlier migrations of the same path made. To be read
    /// only. `None`: there are no stores.
    pub stores: Option<&'a Path>,
}

/// What comes out of a migration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// All values, also those that stay as they were.
    pub values: Map<String, Value>,
    /// Functions that no longer apply to data that was made before (an old workload): reported, not an error.
    pub unavailable: Vec<String>,
    /// For the people who run the upgrade.
    pub notes: Vec<String>,
    /// What an executable was kept in. A Rust type leaves it out: it is part of the program that runs it.
    pub protections: Option<Protections>,
}

impl From<Map<String, Value>> for Output {
    fn from(values: Map<String, Value>) -> Self {
        Self { values, ..Self::default() }
    }
}

/// Where a migration works: a directory of its own, its limits, and whether it was asked to stop.
#[derive(Debug)]
pub struct Work<'a> {
    pub options: &'a Options<'a>,
    place: PathBuf,
    /// Where the files of the stores really are.
    store_places: Vec<PathBuf>,
    made: OnceCell<()>,
}

impl<'a> Work<'a> {
    pub(crate) fn new(place: PathBuf, store_places: Vec<PathBuf>, options: &'a Options<'a>) -> Self {
        Self { options, place, store_places, made: OnceCell::new() }
    }

    pub(crate) fn store_places(&self) -> &[PathBuf] {
        &self.store_places
    }

    /// The migration's own directory, empty at first. It is made when it is first asked for: most migrations work in
    /// memory.
    pub fn dir(&self) -> io::Result<&Path> {
        if self.made.get().is_none() {
            fs::create_dir_all(self.new_stores_path())?;
            let _ = self.made.set(());
        }
        Ok(&self.place)
    }

    /// Where new store files are left, named `<store>.v<version>`: `metadata.v3`.
    pub fn new_stores(&self) -> io::Result<PathBuf> {
        self.dir()?;
        Ok(self.new_stores_path())
    }

    /// A migration that takes long asks now and then, and gives up with any error.
    pub fn is_stopped(&self) -> bool {
        self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    pub(crate) fn was_used(&self) -> bool {
        self.made.get().is_some()
    }

    pub(crate) fn new_stores_path(&self) -> PathBuf {
        self.place.join("stores")
    }
}
