//! The image controller: one image at a time, one write at a time. It calls no manager: it says in their specs what they
//! are to have, and mirrors what they have.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    BackingImage, DiskId, FileState, FileStatus, ImageId, ImageName, ImageStatus, ManagerState, OnDisk, Role,
    Rules, Site, Source, Step, cleanup, puller,
};

/// What is to be written next about an image; nothing, if all is as it should be.
pub fn next(site: &Site, rules: &Rules, name: &ImageName) -> Option<Step> {
    let image = site.images.get(name)?;
    match (&image.status.uuid, image.is_deleted()) {
        (None, true) => Some(Step::RemoveImage(name.clone())),
        (None, false) => Some(Step::GiveUuid(name.clone())),
        (Some(uuid), true) => leave(site, rules, name, uuid),
        (Some(uuid), false) => disks(site, rules, name, image)
            .or_else(|| records(site, rules, name, image, uuid))
            .or_else(|| mirror(site, rules, name, image, uuid)),
    }
}

/// It is to be gone: from all specs first, then from the disks that can be reached, then itself. Disks that can't be
/// reached now are remembered by their managers.
fn leave(site: &Site, rules: &Rules, name: &ImageName, uuid: &ImageId) -> Option<Step> {
    if site.users(name).next().is_some() {
        return None;
    }
    let nowhere = BTreeSet::new();
    if let Some(step) = drop_records(site, name, uuid, &nowhere) {
        return Some(step);
    }
    let still_there = site.managers.iter().any(|(key, manager)| {
        // One that is on its way back says soon whether it has it still.
        let last = manager.status.files.get(name).filter(|file| file.uuid == *uuid);
        let comes_back = !site.has_listed(key) && manager.status.state != ManagerState::Unknown;
        let has = site.file(key, name, uuid).is_some() || comes_back && last.is_some();
        has && rules.role(manager) == Role::Default && !manager.is_deleted()
    });
    (!still_there).then(|| Step::RemoveImage(name.clone()))
}

/// Which disks are to have it: not those that leave the site, nor those where nothing has used it for long.
fn disks(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage) -> Option<Step> {
    let leaves = |disk: &&DiskId| site.disks.get(disk).is_some_and(|disk| disk.is_deleted());
    let gone = image.spec.disks.iter().find(leaves).cloned();
    let gone = gone.or_else(|| cleanup::due(site, rules, name, image))?;
    let mut disks = image.spec.disks.clone();
    disks.remove(&gone);
    Some(Step::SetImageDisks(name.clone(), disks))
}

/// The specs of managers say what the image's spec says.
fn records(
    site: &Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
    uuid: &ImageId,
) -> Option<Step> {
    if let Some(step) = drop_records(site, name, uuid, &image.spec.disks) {
        return Some(step);
    }
    image.spec.disks.iter().find_map(|disk| {
        let (key, manager) = site.default_of(rules, disk)?;
        let mut spec = manager.spec.clone();
        match spec.images.insert(name.clone(), uuid.clone()) {
            Some(before) if before == *uuid => {}
            // It had this name before; its bytes are another image's.
            Some(before) => drop(spec.removed.insert(before, name.clone())),
            None => {}
        }
        // The same for what is on the disk under this name, from whatever site it comes.
        let there = site.reports.get(key).and_then(|report| report.files.as_ref()?.get(name));
        if let Some(other) = there.filter(|there| there.uuid != *uuid) {
            spec.removed.insert(other.uuid.clone(), name.clone());
        }
        spec.removed.remove(uuid);
        (spec != manager.spec).then(|| Step::SetManagerSpec(key.clone(), Box::new(spec)))
    })
}

fn drop_records(site: &Site, name: &ImageName, uuid: &ImageId, keep: &BTreeSet<DiskId>) -> Option<Step> {
    site.managers.iter().find_map(|(key, manager)| {
        let has = manager.spec.images.get(name) == Some(uuid);
        if !has || keep.contains(&manager.spec.disk) {
            return None;
        }
        let mut spec = manager.spec.clone();
        spec.images.remove(name);
        spec.removed.insert(uuid.clone(), name.clone());
        Some(Step::SetManagerSpec(key.clone(), Box::new(spec)))
    })
}

/// The status says what managers say, who pulls, and since when nothing uses it.
fn mirror(
    site: &Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
    uuid: &ImageId,
) -> Option<Step> {
    let mut status = ImageStatus { disks: BTreeMap::new(), ..image.status.clone() };
    if status.seal.is_none()
        && let Some(file) = first_whole(site, rules, name, image, uuid)
    {
        status.seal = file.seal.clone();
        status.format = file.format.or(image.spec.format);
        status.virtual_size = file.virtual_size.or(file.size);
        status.real_size = Some(file.real_size);
    }
    for disk in &image.spec.disks {
        status.disks.insert(disk.clone(), on_disk(site, rules, name, image, disk));
    }
    for (key, manager) in &site.managers {
        let disk = &manager.spec.disk;
        if let Some(file) = site.file(key, name, uuid)
            && !image.spec.disks.contains(disk)
        {
            let on_disk = OnDisk { reason: "it is being removed from this disk".to_owned(), ..shown(file) };
            status.disks.entry(disk.clone()).or_insert(on_disk);
        }
    }
    status.last_use.retain(|disk, _| image.spec.disks.contains(disk) && !site.is_used_on(name, disk));
    for (disk, on_disk) in &status.disks {
        let unused = on_disk.state == FileState::Downloaded && !site.is_used_on(name, disk);
        if unused && image.spec.disks.contains(disk) {
            status.last_use.entry(disk.clone()).or_insert(site.now);
        }
    }
    status.puller = puller::choose(site, rules, name, image);
    (status != image.status).then(|| Step::SetImageStatus(name.clone(), Box::new(status)))
}

/// The copy that says what the image is: the puller's, if it has one.
fn first_whole<'a>(
    site: &'a Site,
    rules: &Rules,
    name: &ImageName,
    image: &BackingImage,
    uuid: &ImageId,
) -> Option<&'a FileStatus> {
    let pulls = |disk: &DiskId| image.status.puller.as_ref().is_some_and(|puller| puller.disk == *disk);
    let whole = site.managers.iter().filter(|(_, manager)| rules.role(manager) != Role::Incompatible);
    let mut whole: Vec<_> = whole
        .filter_map(|(key, manager)| Some((!pulls(&manager.spec.disk), site.file(key, name, uuid)?)))
        .filter(|(_, file)| file.state == FileState::Downloaded && file.seal.is_some())
        .collect();
    whole.sort_by_key(|(not_the_puller, _)| *not_the_puller);
    whole.first().map(|(_, file)| *file)
}

fn on_disk(site: &Site, rules: &Rules, name: &ImageName, image: &BackingImage, disk: &DiskId) -> OnDisk {
    let of = |state, reason: &str| OnDisk { reason: reason.to_owned(), ..empty(state) };
    if !site.disks.contains_key(disk) {
        return of(FileState::Unknown, "no such disk has joined the site");
    }
    // The default manager's word counts first; before the hand-over, an old one's.
    let default = site.default_of(rules, disk);
    let managers = default
        .into_iter()
        .chain(site.managers_of(disk).filter(|(key, _)| default.is_none_or(|it| it.0 != *key)));
    let mut without = None;
    for (key, manager) in managers {
        let reported = image.status.uuid.as_ref().and_then(|uuid| site.file(key, name, uuid));
        if reported.is_some_and(|file| file.state == FileState::Downloaded && !site.is_verified(image, file))
        {
            return of(FileState::Failed, "this copy is not the image that the site knows under its name");
        }
        let file =
            manager.status.files.get(name).filter(|file| Some(&file.uuid) == image.status.uuid.as_ref());
        match (manager.status.state, file) {
            (ManagerState::Unknown, _) if default.is_some_and(|it| std::ptr::eq(it.1, manager)) => {
                let last = file.map(shown).unwrap_or_else(|| empty(FileState::Unknown));
                return OnDisk {
                    state: FileState::Unknown,
                    reason: manager.status.reason.clone(),
                    rate: 0,
                    ..last
                };
            }
            (ManagerState::Unknown, _) => {}
            (_, Some(file)) if file.state == FileState::Downloaded && !site.is_verified(image, file) => {
                return of(
                    FileState::Failed,
                    "this copy is not the image that the site knows under its name",
                );
            }
            (_, Some(file)) => return shown(file),
            (ManagerState::Running, None) => {}
            (state, None) => {
                without = Some(format!("its manager is {}: {}", state.name(), manager.status.reason));
            }
        }
    }
    let waits = || match default {
        None => "its disk has no manager that runs the configured program".to_owned(),
        Some(_) => match &image.spec.source {
            Source::Upload {} if image.status.seal.is_none() => "it waits for its upload".to_owned(),
            _ if in_vain(site, name, image).is_some() => {
                "it is not fetched: the disk that pulled it did not get what was asked for".to_owned()
            }
            _ => "it waits for its turn".to_owned(),
        },
    };
    of(FileState::Pending, &without.unwrap_or_else(waits))
}

/// The disk that pulled it in vain, if one did.
fn in_vain<'a>(site: &'a Site, name: &ImageName, image: &BackingImage) -> Option<&'a FileStatus> {
    let uuid = image.status.uuid.as_ref()?;
    site.managers.keys().find_map(|key| site.file(key, name, uuid).filter(|file| file.lasting))
}

fn empty(state: FileState) -> OnDisk {
    OnDisk {
        state,
        reason: String::new(),
        lasting: false,
        progress: 0,
        bytes: 0,
        rate: 0,
        remaining_seconds: None,
        sources: Vec::new(),
    }
}

fn shown(file: &FileStatus) -> OnDisk {
    OnDisk {
        state: file.state,
        reason: file.reason.clone(),
        lasting: file.lasting,
        progress: file.progress(),
        bytes: file.bytes,
        rate: file.rate,
        remaining_seconds: file.remaining(),
        sources: file.sources.clone(),
    }
}
