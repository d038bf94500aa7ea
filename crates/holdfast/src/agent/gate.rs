//! The storage gate, for releases that carry what their API server understands.

use std::path::Path;
use std::sync::Arc;

use ::agent::cluster::Gate;
use ::agent::precondition::{STORAGE_GATE, supported_storage};
use ::storage::settings::Settings;
use kubernetes::connect::Cluster;
use logic::agent::{Hold, Precondition};

use crate::failure::Result;
use crate::storage;

/// None where the release does not ask for it. Blocks.
pub fn storage(release: &Path, settings: &Settings) -> Option<Precondition> {
    let file = supported_storage(release)?;
    let outcome = holds(storage::blockers(&file, settings));
    Some(Precondition { name: STORAGE_GATE.to_owned(), outcome })
}

/// The same for whoever has no agent: a refusal, unless a person passes over it.
pub fn refuses(release: &Path, settings: &Settings, forced: &[String]) -> ::upgrade::Result<()> {
    let asked = storage(release, settings).filter(|asked| !forced.contains(&asked.name));
    match asked.map(|asked| asked.outcome) {
        None | Some(Hold::Met) => Ok(()),
        Some(Hold::Unmet { why, way_out } | Hold::Unknown { why, way_out }) => Err(::upgrade::Error::Rule {
            why: format!("{STORAGE_GATE}: {why}"),
            hint: format!("{way_out}; `--force {STORAGE_GATE}` passes over it"),
        }),
    }
}

/// For the cluster that the agent is in.
pub fn of_cluster(cluster: &Cluster, settings: Settings) -> Gate {
    let (cluster, settings) = (cluster.clone(), Arc::new(settings));
    Arc::new(move |file| {
        let (cluster, settings) = (cluster.clone(), Arc::clone(&settings));
        Box::pin(async move { holds(storage::blockers_in(&cluster, &file, &settings).await) })
    })
}

fn holds(blockers: Result<Vec<String>>) -> Hold {
    match blockers {
        Ok(blockers) if blockers.is_empty() => Hold::Met,
        Ok(blockers) => Hold::Unmet {
            why: blockers.join("; "),
            way_out: "wait until `holdfast storage status` shows every migration done, or run `holdfast storage migrate`"
                .to_owned(),
        },
        Err(failure) => {
            let why = std::iter::once(failure.error).chain(failure.causes).collect::<Vec<_>>().join(": ");
            Hold::Unknown { why, way_out: failure.hint }
        }
    }
}
