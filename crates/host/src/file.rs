//! The deployments as a file gives them, for machines without ostree and for replaying boots. Pure.

use serde::Deserialize;

use logic::host::{DeploymentId, Host};

use crate::error::{Error, json};

/// Unknown fields are let through (the file may come from a newer guard); what is known must have its shape.
#[derive(Deserialize)]
struct Document {
    booted: String,
    rollback: Option<String>,
    staged: Option<String>,
    #[serde(default)]
    pinned: Vec<String>,
    #[serde(default)]
    deployments: Vec<String>,
}

/// `{"booted":"rhel-d2","rollback":"rhel-d1","deployments":["rhel-d2","rhel-d1"]}`. Without `deployments` the
/// list is unknown.
pub fn parse_file(origin: &str, text: &str) -> Result<Host, Error> {
    let Document { booted, rollback, staged, pinned, deployments } = json(origin, text)?;
    let name = |text: String| {
        DeploymentId::new(text).map_err(|source| Error::BadName { origin: origin.to_owned(), source })
    };
    let mut listed: Vec<DeploymentId> = Vec::new();
    for id in deployments {
        let id = name(id)?;
        if !listed.contains(&id) {
            listed.push(id);
        }
    }
    let booted = name(booted)?;
    if !listed.is_empty() && !listed.contains(&booted) {
        return Err(Error::BootedNotListed { origin: origin.to_owned(), booted });
    }
    Ok(Host {
        booted,
        rollback: rollback.map(name).transpose()?,
        staged: staged.map(name).transpose()?,
        pinned: pinned.into_iter().map(name).collect::<Result<_, _>>()?,
        deployments: listed,
    })
}
