//! One pass of the loop: everything is asked what is next. Writes are made first, as many at once as were decided on one
//! view; when there are none left, what is to be done outside is begun.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use logic::images::{
    BackingImageManager, DiskId, ImageName, Step, disk_next, image_next, manager_name, manager_next,
    missing_manager, volume_next,
};
use store::{Error, Version};
use tracing::{debug, warn};

use super::kinds::{Disks, Images, Managers, Viewed, Volumes};
use super::state::{Shared, fresh_report, now};

/// Looks at the same view at most this often: what is not settled then is wrong, and is said in the log.
const MOST_ROUNDS: usize = 32;

/// Which parts of an object are to be written.
#[derive(Debug, Clone, Copy, Default)]
struct Parts {
    spec: bool,
    status: bool,
}

/// Objects that were changed in the view, to be written once each.
#[derive(Default)]
struct Drafts {
    images: BTreeMap<ImageName, Parts>,
    managers: BTreeMap<String, Parts>,
    disks: BTreeMap<DiskId, Parts>,
    volumes: BTreeMap<ImageName, Parts>,
    /// Creations, marks and removals.
    others: Vec<Step>,
}

impl Drafts {
    fn is_empty(&self) -> bool {
        self.images.is_empty()
            && self.managers.is_empty()
            && self.disks.is_empty()
            && self.volumes.is_empty()
            && self.others.is_empty()
    }
}

pub(super) async fn pass(shared: &Arc<Shared>) {
    for _ in 0..MOST_ROUNDS {
        let (drafts, doings) = decide(shared);
        if drafts.is_empty() {
            for step in doings {
                super::act::begin(shared, step);
            }
            super::monitor::keep(shared);
            return;
        }
        write(shared, drafts).await;
    }
    warn!("the site does not settle: after {MOST_ROUNDS} looks there was still something to write");
}

/// Asks everything. What is to be written is written into the view at once, so that what comes later sees it, and into the
/// store before anything is done.
fn decide(shared: &Shared) -> (Drafts, Vec<Step>) {
    let mut view = shared.view();
    let view = &mut *view;
    view.site.now = now();
    view.site.backoff = view.retries.resting(view.site.now);
    let (site, rules) = (&mut view.site, &view.rules);
    let (mut drafts, mut doings) = (Drafts::default(), Vec::new());
    let mut take = |site: &mut logic::images::Site, step: Step| match step {
        step if !step.is_write() => doings.push(step),
        Step::SetImageStatus(name, status) => {
            if let Some(image) = site.images.get_mut(&name) {
                image.status = *status;
                drafts.images.entry(name).or_default().status = true;
            }
        }
        Step::SetImageDisks(name, disks) => {
            if let Some(image) = site.images.get_mut(&name) {
                image.spec.disks = disks;
                drafts.images.entry(name).or_default().spec = true;
            }
        }
        Step::SetManagerSpec(name, spec) => {
            if let Some(manager) = site.managers.get_mut(&name) {
                manager.spec = *spec;
                drafts.managers.entry(name).or_default().spec = true;
            }
        }
        Step::SetManagerStatus(name, status) => {
            if let Some(manager) = site.managers.get_mut(&name) {
                if manager.status.state != status.state {
                    tracing::info!(manager = %name, state = status.state.name(), reason = %status.reason, "a manager changed");
                }
                manager.status = *status;
                drafts.managers.entry(name).or_default().status = true;
            }
        }
        Step::SetDiskStatus(id, status) => {
            if let Some(disk) = site.disks.get_mut(&id) {
                disk.status = status;
                drafts.disks.entry(id).or_default().status = true;
            }
        }
        Step::SetVolumeStatus(name, status) => {
            if let Some(volume) = site.volumes.get_mut(&name) {
                volume.status = *status;
                drafts.volumes.entry(name).or_default().status = true;
            }
        }
        other => drafts.others.push(other),
    };
    for id in site.disks.keys().cloned().collect::<Vec<_>>() {
        if let Some(step) = disk_next(site, rules, &id) {
            take(site, step);
        }
        if let Some(step) = missing_manager(site, rules, &id) {
            take(site, step);
        }
    }
    for name in site.managers.keys().cloned().collect::<Vec<_>>() {
        for step in manager_next(site, rules, &name) {
            take(site, step);
        }
    }
    for name in site.images.keys().cloned().collect::<Vec<_>>() {
        if let Some(step) = image_next(site, rules, &name) {
            take(site, step);
        }
    }
    for name in site.volumes.keys().cloned().collect::<Vec<_>>() {
        if let Some(step) = volume_next(site, rules, &name) {
            take(site, step);
        }
    }
    (drafts, doings)
}

async fn write(shared: &Arc<Shared>, drafts: Drafts) {
    // All at once: what waits together is one transaction.
    tokio::join!(
        join_all(drafts.images.iter().map(|(key, parts)| write_one::<Images>(shared, key, *parts))),
        join_all(drafts.managers.iter().map(|(key, parts)| write_one::<Managers>(shared, key, *parts))),
        join_all(drafts.disks.iter().map(|(key, parts)| write_one::<Disks>(shared, key, *parts))),
        join_all(drafts.volumes.iter().map(|(key, parts)| write_one::<Volumes>(shared, key, *parts))),
    );
    for step in drafts.others {
        if let Err(error) = carry_out(shared, &step).await {
            debug!(?step, cause = %error, "a step was not carried out; everything is read again");
            refresh_all(shared).await;
            return;
        }
    }
}

async fn write_one<K: Viewed>(shared: &Shared, key: &K::Key, parts: Parts) {
    let Some(mut object) = K::map(&mut shared.view().site).get(key).cloned() else { return };
    let written: Result<(), Error> = async {
        if parts.spec {
            let mut stored = K::objects(shared).update_spec(&object).await?;
            *K::metadata(&mut object) = K::metadata(&mut stored).clone();
        }
        if parts.status {
            let mut stored = K::objects(shared).update_status(&object).await?;
            *K::metadata(&mut object) = K::metadata(&mut stored).clone();
        }
        Ok(())
    }
    .await;
    match written {
        Ok(()) => shared.adopt::<K>(key, object),
        Err(error) => {
            // Somebody else was first, or it can't be written: what is stored counts, and is decided about anew.
            debug!(kind = K::NAME, name = %key, cause = %error, "an object was not written, and is read again");
            shared.metrics.conflicts.add();
            if let Ok(stored) = K::objects(shared).get(&key.to_string()).await {
                let site = &mut shared.view().site;
                match stored {
                    Some(stored) => drop(K::map(site).insert(key.clone(), stored)),
                    None => drop(K::map(site).remove(key)),
                }
            }
        }
    }
}

/// Creations, marks and removals, one after the other.
async fn carry_out(shared: &Arc<Shared>, step: &Step) -> Result<(), Error> {
    match step {
        Step::GiveUuid(name) => {
            let Some(mut image) = shared.images.get(name.as_str()).await? else { return Ok(()) };
            if image.status.uuid.is_none() {
                let uuid = uuid::Uuid::new_v4().hyphenated().to_string();
                image.status.uuid = logic::images::ImageId::parse(&uuid).ok();
                let image = shared.images.update_status(&image).await?;
                shared.view().site.images.insert(name.clone(), image);
            }
        }
        Step::CreateManager(spec) => {
            let name = manager_name(&spec.disk, &spec.program);
            let object = BackingImageManager::new(&name, (**spec).clone());
            let object = shared.managers.create(&object).await?;
            let mut view = shared.view();
            let process =
                logic::images::Process::Ended { why: "it was not started yet".to_owned(), wait: false };
            view.site.reports.insert(name.clone(), fresh_report(process));
            view.site.managers.insert(name, object);
        }
        Step::MarkManager(name) => {
            let object = shared.managers.mark_deleted(name).await?;
            shared.view().site.managers.insert(name.clone(), object);
        }
        Step::RemoveManager(name) => {
            let version = version(shared.view().site.managers.get(name).map(|it| &it.metadata));
            shared.managers.remove(name, &version).await?;
            let mut view = shared.view();
            view.site.managers.remove(name);
            view.site.reports.remove(name);
            view.retries.forget(name);
            view.connections.remove(name);
            if let Some(monitor) = view.monitors.remove(name) {
                monitor.task.abort();
            }
        }
        Step::RemoveImage(name) => {
            // Nothing may begin to use it in between.
            let _admission = shared.admission.lock().await;
            if shared.view().site.users(name).next().is_some() {
                return Ok(());
            }
            let version = version(shared.view().site.images.get(name).map(|it| &it.metadata));
            shared.images.remove(name.as_str(), &version).await?;
            shared.view().site.images.remove(name);
        }
        Step::RemoveDisk(id) => {
            let version = version(shared.view().site.disks.get(id).map(|it| &it.metadata));
            shared.disks.remove(id.as_str(), &version).await?;
            shared.view().site.disks.remove(id);
        }
        Step::RemoveVolume(name) => {
            let version = version(shared.view().site.volumes.get(name).map(|it| &it.metadata));
            shared.volumes.remove(name.as_str(), &version).await?;
            shared.view().site.volumes.remove(name);
        }
        // The others are drafts, or no writes.
        _ => {}
    }
    Ok(())
}

fn version(metadata: Option<&logic::images::Metadata>) -> Version {
    Version(metadata.map(|it| it.resource_version.clone()).unwrap_or_default())
}

/// The view as the store has it.
pub(super) async fn refresh_all(shared: &Shared) {
    if let Err(error) = load(shared).await {
        warn!(cause = %error, "the state can't be read");
    }
}

pub(super) async fn load(shared: &Shared) -> Result<(), Error> {
    let images = shared.images.list().await?.items;
    let managers = shared.managers.list().await?.items;
    let disks = shared.disks.list().await?.items;
    let volumes = shared.volumes.list().await?.items;
    let mut view = shared.view();
    let site = &mut view.site;
    let named = |text: &str| ImageName::parse(text).ok();
    site.images = images.into_iter().filter_map(|it| Some((named(&it.metadata.name)?, it))).collect();
    site.volumes = volumes.into_iter().filter_map(|it| Some((named(&it.metadata.name)?, it))).collect();
    site.managers = managers.into_iter().map(|it| (it.metadata.name.clone(), it)).collect();
    site.disks =
        disks.into_iter().filter_map(|it| Some((DiskId::parse(&it.metadata.name).ok()?, it))).collect();
    Ok(())
}
