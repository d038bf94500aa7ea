//! Who fetches an image from its origin: exactly one disk, which holds the lease.
//!
//! The lease is written down before anybody is told to pull, and its term grows with every change of hands. It stays with
//! a manager that is being restarted; it moves on when the manager is unknown, or failed and another can try.

use super::{BackingImage, DiskId, FileState, ImageId, ImageName, ManagerState, Puller, Rules, Site, Source};

/// The order in which disks take their turn at an image. Different for each image, so that many images are pulled by
/// many disks; a disk that comes or goes changes nothing between the others.
pub fn rendezvous<'a>(image: &ImageId, disks: impl IntoIterator<Item = &'a DiskId>) -> Vec<&'a DiskId> {
    let mut order: Vec<_> = disks.into_iter().map(|disk| (weight(image, disk), disk)).collect();
    order.sort_by(|a, b| b.cmp(a));
    order.into_iter().map(|(_, disk)| disk).collect()
}

fn weight(image: &ImageId, disk: &DiskId) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("holdfast images 2026 who pulls");
    hasher.update(image.as_str().as_bytes());
    hasher.update(disk.as_str().as_bytes());
    *hasher.finalize().as_bytes()
}

/// The lease as it should be written down now.
pub(super) fn choose(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage) -> Option<Puller> {
    let lease = image.status.puller.clone();
    let Some(uuid) = &image.status.uuid else { return lease };
    if matches!(image.spec.source, Source::Upload {}) || site.holders(rules, name, image).next().is_some() {
        return lease;
    }
    let can_pull = |disk: &&DiskId| {
        site.default_of(rules, disk).is_some_and(|(key, manager)| {
            manager.status.state == ManagerState::Running && site.has_listed(key)
        })
    };
    let candidates = rendezvous(uuid, image.spec.disks.iter().filter(can_pull));
    let Some(lease) = lease else {
        // What is on its way back may have all of it.
        return match may_come_back(site, name, image) {
            true => None,
            false => candidates.first().map(|disk| Puller { disk: (*disk).clone(), term: 1 }),
        };
    };
    let stays = match holder(site, rules, name, image, &lease) {
        Holder::Working | Holder::Restarting => true,
        Holder::Gone => may_come_back(site, name, image),
        Holder::Failed => false,
    };
    if stays {
        return Some(lease);
    }
    // The next in turn, around the circle, that did not just fail: each that can try does, before the first tries again.
    let at = candidates.iter().position(|disk| **disk == lease.disk).map_or(0, |at| at + 1);
    let turn = candidates.iter().cycle().skip(at).take(candidates.len());
    let mut others = turn.filter(|disk| ***disk != lease.disk && !just_failed(site, rules, name, disk));
    match others.next() {
        Some(disk) => Some(Puller { disk: (*disk).clone(), term: lease.term + 1 }),
        None => Some(lease),
    }
}

enum Holder {
    Working,
    /// Not heard of, but not for long.
    Restarting,
    /// Not long ago, and it is left alone for a while.
    Failed,
    Gone,
}

fn just_failed(site: &Site, rules: &Rules, name: &ImageName, disk: &DiskId) -> bool {
    let manager = site.default_of(rules, disk);
    manager.is_some_and(|(key, _)| site.backoff.contains(&(key.clone(), name.clone())))
}

fn holder(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage, lease: &Puller) -> Holder {
    if !image.spec.disks.contains(&lease.disk) {
        return Holder::Gone;
    }
    let Some((key, manager)) = site.default_of(rules, &lease.disk) else { return Holder::Gone };
    match manager.status.state {
        ManagerState::Unknown => Holder::Gone,
        ManagerState::Stopped | ManagerState::Starting | ManagerState::Error => Holder::Restarting,
        ManagerState::Running if !site.has_listed(key) => Holder::Restarting,
        ManagerState::Running => {
            let uuid = image.status.uuid.as_ref();
            let file = uuid.and_then(|uuid| site.file(key, name, uuid));
            // Nobody else would get anything else from the origin. Otherwise, once it has rested it may try again: what
            // counts is that it can't now, not that it could not before.
            let in_vain = file.is_some_and(|file| file.lasting);
            match !in_vain && just_failed(site, rules, name, &lease.disk) {
                true => Holder::Failed,
                false => Holder::Working,
            }
        }
    }
}

/// Somebody who had all of it was not heard since, but is not given up: better waited for than fetched again.
fn may_come_back(site: &Site, name: &ImageName, image: &BackingImage) -> bool {
    site.managers.iter().any(|(key, manager)| {
        let waited_for =
            !manager.is_deleted() && manager.status.state != ManagerState::Unknown && !site.has_listed(key);
        let file = manager.status.files.get(name);
        waited_for
            && file.is_some_and(|file| {
                Some(&file.uuid) == image.status.uuid.as_ref() && file.state == FileState::Downloaded
            })
    })
}

/// Whether the default manager of a disk is to fetch the image from its origin now.
pub(super) fn pulls(
    site: &Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
    disk: &DiskId,
) -> Option<u64> {
    let lease = image.status.puller.as_ref().filter(|lease| lease.disk == *disk)?;
    site.holders(rules, name, image).next().is_none().then_some(lease.term)
}
