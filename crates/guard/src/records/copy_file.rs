//! `<backups>/.records/<number>.json`: the record that makes a copy exist, and beside it the list of its files.

use std::fs;
use std::path::{Path, PathBuf};

use disk::durable::{read_limited, sync_dir, write_durably};
use disk::tree::Manifest;
use logic::guard::{CopyRecord, Seq};
use serde::{Deserialize, Serialize};

const LIMIT: u64 = 64 * 1024;

/// A record with what only people and the executor need.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CopyFile {
    #[serde(flatten)]
    pub record: CopyRecord,
    /// Wall clock, for people.
    #[serde(default)]
    pub at: String,
    #[serde(default)]
    pub files: u64,
    /// How the bytes were brought over: `reflink`, `plain-copy`, `snapshot`, `mixed`, `rename`.
    #[serde(default)]
    pub method: String,
}

/// All records that can be read, the numbers of those that can't, and the highest number in any name.
#[derive(Debug, Default)]
pub struct Records {
    pub files: Vec<CopyFile>,
    pub unreadable: Vec<(PathBuf, String)>,
    pub last_number: Seq,
}

pub fn path(dir: &Path, number: Seq) -> PathBuf {
    dir.join(format!("{number}.json"))
}

pub fn manifest_path(dir: &Path, number: Seq) -> PathBuf {
    dir.join(format!("{number}.files"))
}

pub fn load_all(dir: &Path) -> Result<Records, disk::Error> {
    let mut found = Records::default();
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
        entries => entries.map_err(|error| disk::Error::io(disk::Operation::List, dir, error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| disk::Error::io(disk::Operation::List, dir, error))?;
        let path = entry.path();
        let Some(number) = path.file_stem().and_then(|stem| stem.to_str()?.parse::<Seq>().ok()) else {
            continue;
        };
        found.last_number = found.last_number.max(number);
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match load(&path) {
            Ok(Some(file)) if file.record.number == number => found.files.push(file),
            Ok(Some(_)) => {
                found.unreadable.push((path, "it carries another number than its name".to_owned()))
            }
            Ok(None) => {}
            Err(why) => found.unreadable.push((path, why)),
        }
    }
    found.files.sort_by_key(|file| file.record.number);
    Ok(found)
}

fn load(path: &Path) -> Result<Option<CopyFile>, String> {
    let bytes = read_limited(path, LIMIT).map_err(|error| error.to_string())?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string())).transpose()
}

/// The list of files goes first: with the record there, everything is.
pub fn commit(dir: &Path, file: &CopyFile, manifest: Option<&Manifest>) -> Result<(), disk::Error> {
    if let Some(manifest) = manifest {
        manifest.save(&manifest_path(dir, file.record.number))?;
    }
    write_durably(&path(dir, file.record.number), &super::health_file::to_json(file))
}

pub fn forget(dir: &Path, number: Seq) -> Result<(), disk::Error> {
    remove_file(&path(dir, number))?;
    sync_dir(dir)
}

/// Lists of files that no record claims any more.
pub fn sweep_manifests(dir: &Path) -> Result<(), disk::Error> {
    let records = load_all(dir)?;
    let claimed = |number| {
        records.files.iter().any(|file| file.record.number == number)
            || records.unreadable.iter().any(|(unreadable, _)| *unreadable == path(dir, number))
    };
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    let mut removed = false;
    for entry in entries.flatten() {
        let file = entry.path();
        let number = file.file_stem().and_then(|stem| stem.to_str()?.parse::<Seq>().ok());
        if file.extension().is_some_and(|extension| extension == "files")
            && number.is_some_and(|n| !claimed(n))
        {
            remove_file(&file)?;
            removed = true;
        }
    }
    if removed { sync_dir(dir) } else { Ok(()) }
}

pub fn remove_file(path: &Path) -> Result<(), disk::Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(disk::Error::io(disk::Operation::Remove, path, error))
        }
        _ => Ok(()),
    }
}
