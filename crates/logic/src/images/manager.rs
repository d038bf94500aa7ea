//! The manager controller: one manager at a time. It keeps managers running, says how they are, and tells them what to
//! do; the document's workflow, one function per step.
//!
//! Architecture invariants: an old manager is never told to fetch or to delete; an incompatible one is told nothing; a
//! file is deleted only if the spec names it, nothing stands on it, and it is not the last verified copy of an image that
//! is still wanted; nobody is told to pull whose lease is not stored.

use std::collections::BTreeMap;

use super::{
    BackingImage, BackingImageManager, Call, DiskId, FileState, FileStatus, ImageId, ImageName, ManagerSpec,
    ManagerState, ManagerStatus, Process, Program, Report, Role, Rules, Site, Step, cleanup, puller,
};

/// One per disk and program.
pub fn manager_name(disk: &DiskId, program: &Program) -> String {
    let hash = blake3::hash(format!("{}\n{}", program.version, program.path).as_bytes()).to_hex();
    format!("{disk}-{}", &hash[..8])
}

/// What is to be done next about a manager. A write comes alone; calls come together.
pub fn next(site: &Site, rules: &Rules, name: &str) -> Vec<Step> {
    let Some(manager) = site.managers.get(name) else { return Vec::new() };
    let role = rules.role(manager);
    if manager.is_deleted() {
        return vec![gone(site, name)];
    }
    if is_over(site, rules, name, manager, role) {
        return vec![Step::MarkManager(name.to_owned())];
    }
    let status = status(site, rules, manager, site.reports.get(name));
    if status != manager.status {
        return vec![Step::SetManagerStatus(name.to_owned(), Box::new(status))];
    }
    let mut steps = process(site, rules, name, manager, role);
    if role == Role::Default && manager.status.state == ManagerState::Running && site.has_listed(name) {
        if let Some(write) = settle_removed(site, name, manager) {
            return vec![write];
        }
        steps.extend(removals(site, rules, name, manager));
        steps.extend(hand_overs(site, rules, name, manager));
        let wanted = manager.spec.images.iter();
        steps.extend(wanted.filter_map(|(image, uuid)| fetch(site, rules, name, manager, image, uuid)));
    }
    steps
}

/// The manager that a disk of this machine lacks: every one has a default manager. It begins with what the one before
/// was to have and to remove.
pub fn missing(site: &Site, rules: &Rules, disk: &DiskId) -> Option<Step> {
    let object = site.disks.get(disk)?;
    let here = object.spec.node == rules.node && object.status.ready && !object.is_deleted();
    if !here || site.default_of(rules, disk).is_some() {
        return None;
    }
    let name = manager_name(disk, &rules.program);
    if site.managers.contains_key(&name) {
        // It is being deleted, and is made anew when it is gone.
        return None;
    }
    let before = site.managers_of(disk).map(|(_, manager)| &manager.spec);
    let mut spec = ManagerSpec {
        disk: disk.clone(),
        path: object.spec.path.clone(),
        node: rules.node.clone(),
        program: rules.program.clone(),
        images: BTreeMap::new(),
        removed: BTreeMap::new(),
    };
    for old in before {
        spec.images.extend(old.images.clone());
        spec.removed.extend(old.removed.clone());
    }
    Some(Step::CreateManager(Box::new(spec)))
}

/// Marked: its process ends first.
fn gone(site: &Site, name: &str) -> Step {
    match site.reports.get(name).map(|report| &report.process) {
        Some(Process::Runs) => Step::Stop(name.to_owned()),
        _ => Step::RemoveManager(name.to_owned()),
    }
}

/// Old ones go when they have nothing left or don't run any more, incompatible ones at once, a default one with its disk.
/// An incompatible one of the configured program stays, without a process: another one would be no better, and people see why
/// there is none.
fn is_over(site: &Site, rules: &Rules, name: &str, manager: &BackingImageManager, role: Role) -> bool {
    let report = site.reports.get(name);
    match role {
        Role::Incompatible => manager.spec.program != rules.program || !rules.is_local(manager),
        Role::Old => match report.map(|report| (&report.process, &report.files)) {
            Some((Process::Ended { .. }, _)) => true,
            Some((_, Some(files))) if files.is_empty() => {
                site.default_of(rules, &manager.spec.disk).is_some()
            }
            // Elsewhere it may come back; what it has is taken up by the default one, if there is one.
            _ => {
                manager.status.state == ManagerState::Unknown
                    && site.default_of(rules, &manager.spec.disk).is_some()
            }
        },
        Role::Default => {
            let leaves = site.disks.get(&manager.spec.disk).is_none_or(|disk| disk.is_deleted());
            let settled = manager.spec.images.is_empty() && manager.spec.removed.is_empty();
            let replaced = manager.status.state == ManagerState::Unknown
                && site
                    .default_of(rules, &manager.spec.disk)
                    .is_some_and(|(other, it)| other != name && it.status.state == ManagerState::Running);
            replaced || leaves && (settled || manager.status.state != ManagerState::Running)
        }
    }
}

/// How it is, from what was heard last.
fn status(
    site: &Site,
    rules: &Rules,
    manager: &BackingImageManager,
    report: Option<&Report>,
) -> ManagerStatus {
    let before = &manager.status;
    let Some(report) = report else { return before.clone() };
    let silent = site.now.saturating_sub(report.heard);
    let disk = site.disks.get(&manager.spec.disk);
    let away = match disk {
        None => Some("its disk is not of this site".to_owned()),
        Some(disk) if !disk.status.ready && rules.is_local(manager) => Some(disk.status.reason.clone()),
        Some(_) => report.disk_problem.clone(),
    };
    let (state, reason) = match (away, &report.process, &report.files) {
        (Some(reason), _, _) => (ManagerState::Unknown, reason),
        (None, _, _) if silent > rules.patience => (
            ManagerState::Unknown,
            "nothing was heard of it for too long: its node, its disk or its program is gone".to_owned(),
        ),
        (None, Process::Ended { why, .. }, _) if before.state == ManagerState::Stopped => {
            (ManagerState::Stopped, why.clone())
        }
        (None, Process::Ended { why, .. }, _) => (ManagerState::Error, why.clone()),
        (None, Process::Runs | Process::Elsewhere, Some(_)) => (ManagerState::Running, String::new()),
        (None, Process::Runs, None) => (ManagerState::Starting, String::new()),
        // It was there when this service was stopped; it is given time to say so again.
        (None, Process::Elsewhere, None) => (before.state, before.reason.clone()),
    };
    let said = report.api_version > 0;
    let api = match said {
        true => (report.api_version, report.api_min_version),
        false => (before.api_version, before.api_min_version),
    };
    let (state, reason) = match rules.speaks(api) {
        true => (state, reason),
        false => (ManagerState::Error, rules.not_spoken(api)),
    };
    let mut files = match (&report.files, state) {
        (Some(files), ManagerState::Running) => files.clone(),
        _ => before.files.clone(),
    };
    for file in files.values_mut() {
        // What it is sealed with stands in the image's status; here it would be most of the object.
        file.seal = None;
    }
    if state == ManagerState::Unknown {
        for file in files.values_mut() {
            file.state = FileState::Unknown;
            file.rate = 0;
            file.sources.clear();
        }
    }
    ManagerStatus {
        state,
        reason,
        address: report.address.clone().or_else(|| before.address.clone()),
        api_version: api.0,
        api_min_version: api.1,
        files,
    }
}

/// Default managers of this machine run; they are started again without touching files. Old ones are not, and incompatible
/// ones end.
fn process(site: &Site, rules: &Rules, name: &str, manager: &BackingImageManager, role: Role) -> Vec<Step> {
    let process = site.reports.get(name).map(|report| &report.process);
    let ended = matches!(process, Some(Process::Ended { wait: false, .. }));
    let ready = site.disks.get(&manager.spec.disk).is_some_and(|disk| disk.status.ready);
    match role {
        Role::Default if ended && ready && rules.is_local(manager) => vec![Step::Start(name.to_owned())],
        Role::Incompatible if process == Some(&Process::Runs) => vec![Step::Stop(name.to_owned())],
        _ => Vec::new(),
    }
}

/// What is gone needs no remembering.
fn settle_removed(site: &Site, name: &str, manager: &BackingImageManager) -> Option<Step> {
    let there = |uuid: &ImageId, image: &ImageName| {
        site.managers_of(&manager.spec.disk).any(|(key, other)| {
            let listed = site.reports.get(key).and_then(|report| report.files.as_ref());
            match listed {
                Some(files) => files.get(image).is_some_and(|file| file.uuid == *uuid),
                // An old one that says nothing may still have it.
                None => key != name && !other.is_deleted(),
            }
        })
    };
    let mut spec = manager.spec.clone();
    spec.removed.retain(|uuid, image| there(uuid, image));
    (spec != manager.spec).then(|| Step::SetManagerSpec(name.to_owned(), Box::new(spec)))
}

fn removals(site: &Site, rules: &Rules, name: &str, manager: &BackingImageManager) -> Vec<Step> {
    let removed = manager.spec.removed.iter();
    let due = removed.filter(|(uuid, image)| {
        site.file(name, image, uuid).is_some_and(|file| may_delete(site, rules, manager, image, uuid, file))
    });
    let disk = &manager.spec.disk;
    due.filter(|(uuid, image)| {
        !rests(site, name, image) && !is_with_an_old_one(site, name, disk, image, uuid)
    })
    .map(|(uuid, image)| call(name, Call::Delete { image: image.clone(), uuid: uuid.clone() }))
    .collect()
}

/// Asked once more at the last moment: since the spec was written, a volume may have come, or the other copies gone.
fn may_delete(
    site: &Site,
    rules: &Rules,
    manager: &BackingImageManager,
    image: &ImageName,
    uuid: &ImageId,
    file: &FileStatus,
) -> bool {
    let disk = &manager.spec.disk;
    let stands_on_it = site.volumes.values().any(|volume| {
        volume.spec.backing_image == *image
            && volume.spec.disk == *disk
            && volume.status.image_uuid.as_ref().is_none_or(|made_on| made_on == uuid)
    });
    let wanted =
        site.images.get(image).filter(|it| it.status.uuid.as_ref() == Some(uuid) && !it.is_deleted());
    let last = wanted.is_some_and(|image_object| {
        let others = cleanup::verified_copies(site, rules, image, image_object);
        site.is_verified(image_object, file) && others.iter().all(|other| other == disk)
    });
    !stands_on_it && !last
}

/// From every other manager of the disk, as far as it has something that it neither sends nor fetches.
fn hand_overs(site: &Site, rules: &Rules, name: &str, manager: &BackingImageManager) -> Vec<Step> {
    let others = site.managers_of(&manager.spec.disk).filter(|(key, other)| {
        let answers = other.status.state == ManagerState::Running && rules.role(other) == Role::Old;
        let ready = |file: &FileStatus| file.sending == 0 && file.state != FileState::Downloading;
        let report = site.reports.get(*key).and_then(|report| report.files.as_ref());
        *key != name
            && answers
            && !other.is_deleted()
            && report.is_some_and(|files| files.values().any(ready))
    });
    others.map(|(from, _)| Step::HandOver { from: from.clone(), to: name.to_owned() }).collect()
}

/// What is to be done so that an image comes to the disk of a running default manager.
fn fetch(
    site: &Site,
    rules: &Rules,
    name: &str,
    manager: &BackingImageManager,
    image: &ImageName,
    uuid: &ImageId,
) -> Option<Step> {
    let object =
        site.images.get(image).filter(|it| it.status.uuid.as_ref() == Some(uuid) && !it.is_deleted())?;
    let disk = &manager.spec.disk;
    if rests(site, name, image) || is_with_an_old_one(site, name, disk, image, uuid) {
        return None;
    }
    let other = site.reports.get(name).and_then(|report| report.files.as_ref()?.get(image));
    if other.is_some_and(|other| other.uuid != *uuid) {
        // What had this name before goes first.
        return None;
    }
    let file = site.file(name, image, uuid);
    match file.map(|file| (file.state, file)) {
        // Most images, most of the time: nothing else is worked out for these.
        Some((FileState::Downloaded, file)) => {
            return stray_copy(site, image, object, uuid, file, disk).map(|it| call(name, it));
        }
        // People were told what to do about it.
        Some((FileState::Failed, file)) if file.lasting => return None,
        // It is being verified; that ends by itself.
        Some((FileState::Unknown, _)) => return None,
        _ => {}
    }
    let peers = site.peers(rules, image, object, disk);
    let term = puller::pulls(site, rules, image, object, disk);
    let asked = match file {
        Some(file) if file.state == FileState::Downloading && file.pulling == term.is_some() => {
            peers_changed(site, name, image, uuid, peers)
        }
        _ => {
            let (image, uuid, seal) = (image.clone(), uuid.clone(), object.status.seal.clone());
            match term {
                Some(term) => Some(Call::Pull { image, uuid, term, seal, peers }),
                None if peers.is_empty() => None,
                None => Some(Call::Sync { image, uuid, seal, peers }),
            }
        }
    };
    asked.map(|it| call(name, it))
}

fn peers_changed(
    site: &Site,
    name: &str,
    image: &ImageName,
    uuid: &ImageId,
    peers: Vec<super::PeerAddress>,
) -> Option<Call> {
    let told = site.reports.get(name).and_then(|report| report.told.get(image));
    let changed = told.is_none_or(|told| *told != peers);
    changed.then(|| Call::Peers { image: image.clone(), uuid: uuid.clone(), peers })
}

/// A copy that is whole, but not of what the site has under this name, makes room for one that is.
fn stray_copy(
    site: &Site,
    image: &ImageName,
    object: &BackingImage,
    uuid: &ImageId,
    file: &FileStatus,
    disk: &DiskId,
) -> Option<Call> {
    let stray = !site.is_verified(object, file) && !site.is_used_on(image, disk);
    stray.then(|| Call::Delete { image: image.clone(), uuid: uuid.clone() })
}

/// Two managers never work on one file: what an old one has is handed over first.
fn is_with_an_old_one(site: &Site, name: &str, disk: &DiskId, image: &ImageName, uuid: &ImageId) -> bool {
    site.managers_of(disk).any(|(key, other)| {
        let runs = match site.reports.get(key) {
            Some(Report { process: Process::Ended { .. }, .. }) | None => false,
            Some(report) => match &report.files {
                Some(files) => files.get(image).is_some_and(|file| file.uuid == *uuid),
                None => true,
            },
        };
        key != name && runs && !other.is_deleted() && other.status.state != ManagerState::Unknown
    })
}

fn rests(site: &Site, name: &str, about: &ImageName) -> bool {
    site.backoff.contains(&(name.to_owned(), about.clone()))
}

fn call(manager: &str, call: Call) -> Step {
    Step::Call { manager: manager.to_owned(), call }
}
