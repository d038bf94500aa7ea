//! `rpm-ostree status --json`. Pure.

use serde::Deserialize;

use crate::error::{Error, json};
use crate::listing::{Entry, Listing, malformed};

const ORIGIN: &str = "the output of rpm-ostree status";

#[derive(Deserialize)]
struct Status {
    deployments: Vec<Deployment>,
}

#[derive(Deserialize)]
struct Deployment {
    id: Option<String>,
    osname: Option<String>,
    checksum: Option<String>,
    serial: Option<u64>,
    #[serde(default)]
    booted: bool,
    /// Left out by versions and for deployments that can't be staged.
    #[serde(default)]
    staged: bool,
    /// Left out for the booted one by some versions.
    #[serde(default)]
    pinned: bool,
}

/// The list is in boot order, with a staged deployment first. `id` is `<osname>-<checksum>.<serial>`.
pub fn parse_rpm_ostree(text: &str) -> Result<Listing, Error> {
    let status: Status = json(ORIGIN, text)?;
    let entries = status.deployments.into_iter().map(entry).collect::<Result<_, _>>()?;
    Listing::new(ORIGIN, entries)
}

fn entry(deployment: Deployment) -> Result<Entry, Error> {
    let Deployment { id, osname, checksum, serial, booted, staged, pinned } = deployment;
    let id = match (id, &osname, checksum, serial) {
        (Some(id), ..) => id,
        (None, Some(osname), Some(checksum), Some(serial)) => format!("{osname}-{checksum}.{serial}"),
        _ => return Err(malformed(ORIGIN, "a deployment has no id".to_owned())),
    };
    Ok(Entry { booted, staged, pinned, ..Entry::new(ORIGIN, id, osname)? })
}
