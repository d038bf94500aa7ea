//! The volume controller: a volume waits until its image is on its disk, then it is made there.

use super::{Call, FileState, ImageName, ManagerState, Rules, Site, Step, Volume, VolumeState, VolumeStatus};

pub fn next(site: &Site, rules: &Rules, name: &ImageName) -> Option<Step> {
    let volume = site.volumes.get(name)?;
    if volume.is_deleted() {
        return leave(site, rules, name, volume);
    }
    match volume.status.state {
        VolumeState::Ready => None,
        VolumeState::Waiting | VolumeState::Failed => wait(site, rules, name, volume),
    }
}

/// Its manager removes it, then it is forgotten; while the manager is away it is remembered.
fn leave(site: &Site, rules: &Rules, name: &ImageName, volume: &Volume) -> Option<Step> {
    if !site.disks.contains_key(&volume.spec.disk) {
        return Some(Step::RemoveVolume(name.clone()));
    }
    let (manager, _) = running(site, rules, name, volume)?;
    Some(Step::Call { manager, call: Call::VolumeDelete { volume: name.clone() } })
}

fn wait(site: &Site, rules: &Rules, name: &ImageName, volume: &Volume) -> Option<Step> {
    let spec = &volume.spec;
    let says = |reason: String| {
        let failed = volume.status.state == VolumeState::Failed;
        let status = VolumeStatus { reason, ..volume.status.clone() };
        // Why it failed is worth more than what it waits for.
        (!failed && status != volume.status).then(|| Step::SetVolumeStatus(name.clone(), Box::new(status)))
    };
    let Some(image) = site.images.get(&spec.backing_image).filter(|image| !image.is_deleted()) else {
        return says(format!("there is no image {}", spec.backing_image));
    };
    if !image.spec.disks.contains(&spec.disk) {
        let mut disks = image.spec.disks.clone();
        disks.insert(spec.disk.clone());
        return Some(Step::SetImageDisks(spec.backing_image.clone(), disks));
    }
    let Some(uuid) = &image.status.uuid else { return says("its image is new".to_owned()) };
    let state = image.status.disks.get(&spec.disk).map(|on_disk| on_disk.state);
    let there = match running(site, rules, name, volume) {
        Some((manager, _)) => site
            .file(&manager, &spec.backing_image, uuid)
            .is_some_and(|file| site.is_verified(image, file) && image.status.seal.is_some())
            .then_some(manager),
        None => None,
    };
    let Some(manager) = there else {
        let state = state.unwrap_or(FileState::Pending).name();
        return says(format!("image {} is {state} on its disk", spec.backing_image));
    };
    if spec.upload {
        return says("it waits for its upload".to_owned());
    }
    let (volume, image, size) = (name.clone(), spec.backing_image.clone(), spec.size);
    Some(Step::Call { manager, call: Call::VolumeCreate { volume, image, uuid: uuid.clone(), size } })
}

/// The manager of its disk, if it answers and did not just fail at it.
fn running(site: &Site, rules: &Rules, name: &ImageName, volume: &Volume) -> Option<(String, ManagerState)> {
    let (key, manager) = site.default_of(rules, &volume.spec.disk)?;
    let rests = site.backoff.contains(&(key.clone(), name.clone()));
    let answers = manager.status.state == ManagerState::Running && site.has_listed(key);
    (answers && !rests).then(|| (key.clone(), manager.status.state))
}
