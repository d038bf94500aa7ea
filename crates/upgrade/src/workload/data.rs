//! The data in a workload's record, as the release in force sees it.

use logic::upgrade::ApplianceName;
use serde_json::{Map, Value};

use super::error::Error;
use super::manage::{load, place};
use super::record::Record;
use crate::layout::Layout;

/// A record's data in the form of the release in force.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    pub data: Map<String, Value>,
    pub data_version: u32,
    /// What no longer applies to it, in words.
    pub unavailable: Vec<String>,
}

/// Migrates in memory; the record stays as it is. `migrate` is given the data and its version, and answers with the data,
/// the version it is of then, and what no longer applies.
pub fn read<E>(
    record: &Record,
    migrate: impl FnOnce(&Map<String, Value>, u32) -> Result<(Map<String, Value>, u32, Vec<String>), E>,
) -> Result<View, E> {
    let (data, data_version, unavailable) = migrate(&record.data, record.data_version)?;
    Ok(View { data, data_version, unavailable })
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Set {
    Written,
    /// The record is in an older form, which it keeps: the value would need the new one.
    Skipped {
        key: String,
        data_version: u32,
        release_version: u32,
    },
}

/// Sets a value in the record, where the record is in the form of the release in force, `release_version`.
pub fn set(
    layout: &Layout,
    name: &ApplianceName,
    release_version: u32,
    key: &str,
    value: Value,
) -> Result<Set, Error> {
    let mut record = load(layout, name)?;
    let data_version = record.data_version;
    if data_version > release_version {
        let name = name.to_string();
        return Err(Error::Newer { name, found: data_version, known: release_version });
    }
    if data_version < release_version {
        return Ok(Set::Skipped { key: key.to_owned(), data_version, release_version });
    }
    record.data.insert(key.to_owned(), value);
    record.write(place(layout, name).dir())?;
    Ok(Set::Written)
}
