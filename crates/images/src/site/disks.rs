//! The disks of this machine: which one is where it is configured to be.
//!
//! A directory becomes a disk only if none was ever known in its place: an empty mount point must not become one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logic::images::{Disk, DiskId, DiskSpec};
use tracing::{info, warn};

use super::error::{Error, Result};
use super::kinds::Disks;
use super::state::Shared;
use crate::file::DiskDir;

/// Before anything is served: every configured directory is a disk of the site, or it is said why not.
pub(super) async fn take_up(shared: &Arc<Shared>, paths: &[PathBuf]) -> Result<()> {
    let mut configured: BTreeMap<PathBuf, DiskId> = BTreeMap::new();
    for given in paths {
        // As others see it, wherever this service was started.
        let path = &std::path::absolute(given).unwrap_or_else(|_| given.clone());
        let known = known_at(shared, path);
        let found = match known {
            // It was a disk once: if it is not there now, it is away.
            Some(_) => DiskDir::id_at(path),
            None => DiskDir::init(path),
        };
        match (found, known) {
            (Ok(id), _) => {
                if let Some((first, _)) = configured.iter().find(|(_, other)| **other == id) {
                    return Err(Error::SameDisk { first: first.clone(), second: path.clone(), id });
                }
                configured.insert(path.clone(), id);
            }
            (Err(error), Some(id)) => {
                warn!(path = %path.display(), disk = %id, cause = %error, "a disk is away");
                configured.insert(path.clone(), id);
            }
            (Err(source), None) => return Err(Error::Disk { path: path.clone(), source }),
        }
    }
    for (path, id) in &configured {
        know(shared, id, path).await?;
    }
    shared.view().configured = configured;
    probe(shared).await;
    Ok(())
}

fn known_at(shared: &Shared, path: &Path) -> Option<DiskId> {
    let view = shared.view();
    let here = |disk: &Disk| disk.spec.node == view.rules.node && Path::new(&disk.spec.path) == path;
    view.site.disks.iter().find(|(_, disk)| here(disk) && !disk.is_deleted()).map(|(id, _)| id.clone())
}

/// The object of a disk says where it is. A disk that was elsewhere, on this node or another, has moved here.
pub(super) async fn know(shared: &Shared, id: &DiskId, path: &Path) -> Result<()> {
    let node = shared.view().rules.node.clone();
    let spec = DiskSpec { node, path: path.display().to_string() };
    let object = match shared.disks.get(id.as_str()).await? {
        None => shared.disks.create(&Disk::new(id.as_str(), spec)).await?,
        Some(disk) if disk.spec == spec => disk,
        Some(disk) => {
            info!(disk = %id, from = %disk.spec.node, to = %spec.node, "a disk has moved");
            shared.disks.update_spec(&Disk { spec, ..disk }).await?
        }
    };
    moved_managers(shared, id, &object).await?;
    shared.adopt::<Disks>(id, object);
    Ok(())
}

/// Managers go where their disk goes; what they are to have stays.
pub(super) async fn moved_managers(shared: &Shared, id: &DiskId, disk: &Disk) -> store::Result<()> {
    let there: Vec<_> = shared.view().site.managers_of(id).map(|(_, manager)| manager.clone()).collect();
    for mut manager in there {
        if manager.spec.node != disk.spec.node || manager.spec.path != disk.spec.path {
            manager.spec.node = disk.spec.node.clone();
            manager.spec.path = disk.spec.path.clone();
            let manager = shared.managers.update_spec(&manager).await?;
            shared.adopt::<super::kinds::Managers>(&manager.metadata.name.clone(), manager);
        }
    }
    Ok(())
}

/// Looks again whether each disk is the one that was expected. Another one is left alone until the service is restarted,
/// unless it is one that was here before and came back.
pub(super) async fn probe(shared: &Arc<Shared>) {
    let configured = shared.view().configured.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let look = |(path, id): (PathBuf, DiskId)| {
            let found = DiskDir::id_at(&path).map_err(|error| error.to_string());
            (path, id, found)
        };
        configured.into_iter().map(look).collect::<Vec<_>>()
    });
    let Ok(looked) = looked.await else { return };
    let mut probes = BTreeMap::new();
    for (path, id, found) in looked {
        match found {
            Ok(found) if found == id => drop(probes.insert(id, Ok(()))),
            Ok(found) if was_here(shared, &found, &path) => {
                info!(path = %path.display(), disk = %found, "a disk is back in its place");
                shared.view().configured.insert(path, found.clone());
                probes.insert(found, Ok(()));
            }
            Ok(found) => {
                probes.insert(id, Err(format!("another disk is at {}: {found}", path.display())));
            }
            Err(why) => drop(probes.insert(id, Err(why))),
        }
    }
    let mut view = shared.view();
    if view.site.probes != probes {
        view.site.probes = probes;
        drop(view);
        shared.wake.notify_one();
    }
}

fn was_here(shared: &Shared, id: &DiskId, path: &Path) -> bool {
    let view = shared.view();
    let disk = view.site.disks.get(id);
    disk.is_some_and(|disk| {
        disk.spec.node == view.rules.node && Path::new(&disk.spec.path) == path && !disk.is_deleted()
    })
}
