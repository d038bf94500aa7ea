//! Carrying out what was decided, apart from writes: processes, calls and hand-overs, each in a task of its own, one at a time
//! for each manager and image.

use std::sync::Arc;

use logic::images::{Call, ImageName, Step, VolumeState, VolumeStatus, manager_next};
use tonic::{Code, Status};
use tracing::{debug, info, warn};

use super::call;
use super::children;
use super::state::{Shared, now};

/// Calls at once, over all managers.
const MOST_CALLS: usize = 256;
/// Milliseconds until the same call is made again.
const SAY_AGAIN_AFTER: u64 = 1500;

pub(super) fn begin(shared: &Arc<Shared>, step: Step) {
    match step {
        Step::Start(manager) => children::start(shared, &manager),
        Step::Stop(manager) => shared.children.stop(&manager),
        Step::HandOver { from, to } => {
            let key = (from.clone(), "hand-over".to_owned());
            if !take(shared, &key) {
                return;
            }
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                hand_over(&shared, &from, &to).await;
                give_back(&shared, &key);
            });
        }
        Step::Call { manager, call } => {
            let key = (manager.clone(), call.about().to_string());
            // Nothing is made on an image that is just being removed.
            let stands_on = match &call {
                Call::VolumeCreate { image, .. } => Some((manager.clone(), image.to_string())),
                _ => None,
            };
            let busy = stands_on.is_some_and(|key| shared.view().calling.contains(&key));
            if busy || was_just_said(shared, &key, &call) || !take(shared, &key) {
                return;
            }
            shared.view().said.insert(key.clone(), (call.clone(), now()));
            let shared = Arc::clone(shared);
            tokio::spawn(async move {
                one(&shared, &manager, call).await;
                give_back(&shared, &key);
            });
        }
        // A write is never begun here.
        _ => {}
    }
}

fn take(shared: &Shared, key: &(String, String)) -> bool {
    let mut view = shared.view();
    view.calling.len() < MOST_CALLS && view.calling.insert(key.clone())
}

/// What a manager was told is in its next list, or the one after; until then it is not told again.
fn was_just_said(shared: &Shared, key: &(String, String), call: &Call) -> bool {
    let now = now();
    let mut view = shared.view();
    view.said.retain(|_, (_, at)| now.saturating_sub(*at) < SAY_AGAIN_AFTER);
    view.said.get(key).is_some_and(|(said, _)| said == call)
}

fn give_back(shared: &Shared, key: &(String, String)) {
    shared.view().calling.remove(key);
    shared.wake.notify_one();
}

async fn one(shared: &Arc<Shared>, manager: &str, call: Call) {
    shared.metrics.calls.add();
    let about = call.about().clone();
    let outcome = match &call {
        Call::Pull { image, .. } | Call::Sync { image, .. } => fetch(shared, manager, image, &call).await,
        Call::Peers { image, uuid, peers } => {
            let told = match call::peers(shared, manager, image, uuid, peers).await {
                // One of the API before fetches from those that it was given at first.
                Err(status) if status.code() == Code::Unimplemented => Ok(()),
                told => told,
            };
            told.map(|()| {
                shared.report(manager, |report| drop(report.told.insert(image.clone(), peers.clone())));
            })
        }
        Call::Delete { image, uuid } => delete(shared, manager, image, uuid, &call).await,
        Call::VolumeCreate { volume, image, uuid, size } => {
            let made = call::volume_create(shared, manager, volume, image, uuid, *size).await;
            volume_made(shared, volume, uuid, made).await
        }
        Call::VolumeDelete { volume } => match call::volume_delete(shared, manager, volume).await {
            Ok(()) => forget_volume(shared, volume).await,
            Err(status) if status.code() == Code::NotFound => forget_volume(shared, volume).await,
            Err(status) => Err(status),
        },
    };
    match outcome {
        Ok(()) => {}
        // Another call was first; what it does is what was wanted.
        Err(status) if status.code() == Code::AlreadyExists => shared.poke(manager),
        Err(status) => {
            shared.metrics.calls_failed.add();
            info!(manager, about = %about, cause = %status.message(), code = ?status.code(), "a call failed");
            shared.view().retries.failed(manager, &about, now());
            shared.poke(manager);
        }
    }
}

async fn fetch(shared: &Arc<Shared>, manager: &str, image: &ImageName, call: &Call) -> Result<(), Status> {
    let (answer, peers) = match call {
        Call::Pull { uuid, seal, peers, .. } => {
            (call::pull(shared, manager, image, uuid, seal.as_ref(), peers).await?, peers)
        }
        Call::Sync { uuid, seal, peers, .. } => {
            (call::sync(shared, manager, image, uuid, seal.as_ref(), peers).await?, peers)
        }
        _ => return Ok(()),
    };
    let (name, file) = wire::file_status(&answer).map_err(|error| Status::internal(error.to_string()))?;
    debug!(manager, image = %name, state = file.state.name(), "an image is being fetched");
    shared.report(manager, |report| drop(report.told.insert(name.clone(), peers.clone())));
    shared.listed_one(manager, name, Some(file));
    Ok(())
}

/// Since it was decided, something may have come that speaks against it: it is asked once more, when no volume is just being
/// admitted. A volume that comes later finds the image wanted again, and waits until it was fetched again.
async fn delete(
    shared: &Arc<Shared>,
    manager: &str,
    image: &ImageName,
    uuid: &logic::images::ImageId,
    wanted: &Call,
) -> Result<(), Status> {
    let still = {
        let _admission = shared.admission.lock().await;
        let view = shared.view();
        let steps = manager_next(&view.site, &view.rules, manager);
        steps.iter().any(|step| matches!(step, Step::Call { call, .. } if call == wanted))
    };
    if !still {
        return Ok(());
    }
    match call::delete(shared, manager, image, uuid).await {
        Err(status) if status.code() != Code::NotFound => Err(status),
        _ => {
            info!(manager, image = %image, uuid = %uuid, "an image was removed from a disk");
            shared.listed_one(manager, image.clone(), None);
            Ok(())
        }
    }
}

async fn volume_made(
    shared: &Arc<Shared>,
    name: &ImageName,
    uuid: &logic::images::ImageId,
    made: Result<wire::images::Volume, Status>,
) -> Result<(), Status> {
    let (status, outcome) = match made {
        Ok(volume) => {
            let status = VolumeStatus {
                state: VolumeState::Ready,
                reason: String::new(),
                path: Some(volume.path),
                image_uuid: Some(uuid.clone()),
            };
            (status, Ok(()))
        }
        // It will be asked again; only what a manager says about the volume itself is worth keeping.
        Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {
            return Err(status);
        }
        Err(status) => {
            let failed = VolumeStatus {
                state: VolumeState::Failed,
                reason: status.message().to_owned(),
                ..VolumeStatus::default()
            };
            (failed, Err(status))
        }
    };
    set_volume_status(shared, name, status).await;
    outcome
}

pub(super) async fn set_volume_status(shared: &Shared, name: &ImageName, status: VolumeStatus) {
    // Somebody may be marking it at the same time.
    for _ in 0..5 {
        let Ok(Some(mut volume)) = shared.volumes.get(name.as_str()).await else { return };
        volume.status = status.clone();
        match shared.volumes.update_status(&volume).await {
            Ok(volume) => return shared.adopt::<super::kinds::Volumes>(name, volume),
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => {
                return warn!(volume = %name, cause = %error, "what became of a volume can't be written");
            }
        }
    }
}

async fn forget_volume(shared: &Shared, name: &ImageName) -> Result<(), Status> {
    let Ok(Some(volume)) = shared.volumes.get(name.as_str()).await else { return Ok(()) };
    let version = store::Version(volume.metadata.resource_version.clone());
    let removed = shared.volumes.remove(name.as_str(), &version).await;
    removed.map_err(|error| Status::aborted(error.to_string()))?;
    shared.view().site.volumes.remove(name);
    Ok(())
}

/// The three calls of the document. Broken off between any two of them, nothing is lost: the old manager owns until it is
/// told to let go, and everything can be asked again.
async fn hand_over(shared: &Arc<Shared>, from: &str, to: &str) {
    let outcome = async {
        let offered = call::offer(shared, from).await?;
        if offered.is_empty() {
            return Ok(0);
        }
        let count = offered.len();
        call::confirm(shared, to, offered).await?;
        call::confirm(shared, from, Vec::new()).await?;
        Ok(count)
    };
    match outcome.await {
        Ok(0) => {}
        Ok(count) => {
            shared.metrics.hand_overs.add();
            info!(from, to, count, "images were handed over");
        }
        Err(status) => {
            let status: Status = status;
            shared.metrics.calls_failed.add();
            warn!(from, to, cause = %status.message(), "a hand-over was broken off");
        }
    }
    shared.poke(from);
    shared.poke(to);
    // What they have now is heard before it is decided about again.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
}
