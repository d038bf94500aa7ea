//! Which copies may go. Never one that something stands on, and never the last verified one.

use std::collections::BTreeSet;

use super::{BackingImage, DiskId, FileState, ImageName, ManagerState, Rules, Site};

/// Why a copy stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Keep {
    #[error("volume {0} on this disk stands on it")]
    Used(ImageName),
    #[error("it is the last verified copy of the site")]
    LastVerified,
    #[error("no other disk that is to keep it has a verified copy")]
    NoneVerified,
    #[error("the image is not on this disk, nor wanted there")]
    NotThere,
}

/// Whether an image may be removed from all of these disks at once.
pub fn may_clean_up(
    site: &Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
    disks: &BTreeSet<DiskId>,
) -> Result<(), (DiskId, Keep)> {
    for disk in disks {
        let volumes = site.volumes.iter();
        let mut using = volumes.filter(|(_, it)| it.spec.backing_image == *name && it.spec.disk == *disk);
        if let Some((volume, _)) = using.next() {
            return Err((disk.clone(), Keep::Used(volume.clone())));
        }
        if !image.spec.disks.contains(disk) {
            return Err((disk.clone(), Keep::NotThere));
        }
    }
    let verified = verified_copies(site, rules, name, image);
    match disks.iter().next() {
        Some(first) if verified.difference(disks).next().is_none() => {
            let last = disks.iter().find(|disk| verified.contains(*disk));
            match last {
                Some(disk) => Err((disk.clone(), Keep::LastVerified)),
                None => Err((first.clone(), Keep::NoneVerified)),
            }
        }
        _ => Ok(()),
    }
}

/// Disks that are to have the image, and do, as their managers say now.
pub(super) fn verified_copies(
    site: &Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
) -> BTreeSet<DiskId> {
    let holders = site.holders(rules, name, image);
    holders
        .map(|(_, manager)| manager.spec.disk.clone())
        .filter(|disk| image.spec.disks.contains(disk))
        .collect()
}

/// The disk whose copy has been unused for too long, one at a time: the one that was used longest ago goes first.
pub(super) fn due(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage) -> Option<DiskId> {
    let wait = rules.cleanup_after?;
    let mut due: Vec<_> = image
        .status
        .last_use
        .iter()
        .filter(|(disk, since)| site.now >= since.saturating_add(wait) && image.spec.disks.contains(*disk))
        .filter(|(disk, _)| is_settled(site, rules, name, image, disk))
        .map(|(disk, since)| (*since, disk.clone()))
        .collect();
    due.sort();
    let may_go =
        |disk: &DiskId| may_clean_up(site, rules, name, image, &BTreeSet::from([disk.clone()])).is_ok();
    due.into_iter().map(|(_, disk)| disk).find(|disk| may_go(disk))
}

/// Whether a disk's manager says now that it has all of it: what is gone or on its way is not judged.
fn is_settled(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage, disk: &DiskId) -> bool {
    site.default_of(rules, disk).is_some_and(|(key, manager)| {
        let file = image.status.uuid.as_ref().and_then(|uuid| site.file(key, name, uuid));
        manager.status.state == ManagerState::Running
            && file.is_some_and(|file| file.state == FileState::Downloaded)
    })
}
