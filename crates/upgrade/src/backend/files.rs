//! What backends whose appliance is made of files do alike: images side by side, the link to the one in force, and
//! snapshots of the state by copying it.
//!
//! Every call may be killed at any system call and repeated; what it says is done is on disk. It must not know what
//! runs on these files: that nothing does, where it matters, is the caller's care.

mod images;
mod lasting;
mod snapshots;

use std::fs;
use std::path::Path;

use disk::durable::sync_dir;
use disk::{Operation, RESERVED_PREFIX};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as Unreadable;

use super::{Description, Result};
use crate::layout::Layout;

/// Directories are made for the appliance's owner alone: its state may hold anything.
const PRIVATE: u32 = 0o700;
/// More names than this in one of our directories are somebody else's.
const MOST_NAMES: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Files {
    layout: Layout,
    /// As in [`disk::tree::CopyOptions`].
    threads: usize,
}

impl Files {
    pub fn new(layout: Layout) -> Self {
        Self { layout, threads: 0 }
    }

    /// 1: the same system calls for the same files, every time.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the directory of all that an appliance has.
    pub fn make_root(&self) -> Result<()> {
        Ok(make_dir(self.layout.root())?)
    }

    /// Makes the directories of an appliance that has none yet.
    pub fn lay_out(&self) -> Result<()> {
        let layout = &self.layout;
        for dir in [layout.releases(), layout.snapshots(), layout.state(), layout.data(), layout.run()] {
            make_dir(&dir)?;
        }
        Ok(())
    }

    /// All but whether it is on.
    pub fn describe(&self) -> Result<Description> {
        Ok(Description {
            on: false,
            current: self.current()?,
            images: self.images()?,
            snapshots: self.snapshots()?,
        })
    }
}

/// A directory that is there when this returns, also after a power cut.
fn make_dir(path: &Path) -> Result<(), disk::Error> {
    use std::os::unix::fs::DirBuilderExt;
    let above = path.parent().unwrap_or(Path::new("/"));
    if !above.exists() {
        make_dir(above)?;
    }
    match fs::DirBuilder::new().mode(PRIVATE).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(disk::Error::io(Operation::Create, path, error)),
    }
    sync_dir(above)
}

/// The directories in a directory that have names of ours, sorted. What is being made or removed is hidden.
fn names_in(dir: &Path) -> Result<Vec<String>, disk::Error> {
    let failed = |error| disk::Error::io(Operation::List, dir, error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MOST_NAMES) {
        let entry = entry.map_err(failed)?;
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        if let Ok(name) = entry.file_name().into_string()
            && is_dir
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Ids are the names of their directories.
fn id_of<'de, T: Deserialize<'de>>(name: String) -> Option<T> {
    T::deserialize(IntoDeserializer::<Unreadable>::into_deserializer(name)).ok()
}

/// Whether there is something, be it a link that leads nowhere.
fn is_there(path: &Path) -> Result<bool, disk::Error> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(disk::Error::io(Operation::Inspect, path, error)),
    }
}

fn hidden(name: &str) -> String {
    format!("{RESERVED_PREFIX}{name}")
}
