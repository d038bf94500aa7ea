//! The calls of managers, with the words of `logic`. Each has a time limit; what an answer means is for others.

use std::time::Duration;

use logic::images::{Format, ImageId, ImageName, PeerAddress, Seal, Source};
use tonic::Status;
use tonic::transport::Channel;
use wire::images as api;
use wire::images::image_manager_client::ImageManagerClient;

use super::state::Shared;

/// The work itself goes on after the answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Removing a large file, and making or removing a volume.
const LONG: Duration = Duration::from_secs(60);

/// Calls to a manager at the address that it has now, over one connection for all of them: a manager has places for few.
pub(super) fn calls(shared: &Shared, manager: &str) -> Result<ImageManagerClient<Channel>, Status> {
    let mut view = shared.view();
    let disk = view.site.managers.get(manager).map(|object| object.spec.disk.clone());
    let address = view.site.reports.get(manager).and_then(|report| report.address.clone());
    let (Some(disk), Some(address)) = (disk, address) else {
        return Err(Status::unavailable("it is not known where the manager listens"));
    };
    match view.connections.get(manager) {
        Some((there, calls)) if *there == address => Ok(calls.clone()),
        _ => {
            let calls = shared.dialler.calls(&disk, &address);
            let calls = calls.map_err(|error| Status::unavailable(error.to_string()))?;
            view.connections.insert(manager.to_owned(), (address, calls.clone()));
            Ok(calls)
        }
    }
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} s", limit.as_secs()))),
    }
}

fn reference(image: &ImageName, uuid: &ImageId) -> Option<api::ImageRef> {
    Some(api::ImageRef::new(image, uuid))
}

fn peer(peer: &PeerAddress) -> api::Peer {
    api::Peer {
        disk: peer.disk.to_string(),
        node: peer.node.to_string(),
        address: peer.address.clone(),
        path: peer.path.clone(),
    }
}

fn format_name(format: Option<Format>) -> String {
    match format {
        None => String::new(),
        Some(Format::Raw) => "raw".to_owned(),
        Some(Format::Qcow2) => "qcow2".to_owned(),
    }
}

/// Where it comes from, its checksum, its format.
fn spec(shared: &Shared, image: &ImageName) -> Result<(String, String, String), Status> {
    let view = shared.view();
    let object = view.site.images.get(image).ok_or_else(|| Status::not_found("the image is gone"))?;
    let url = match &object.spec.source {
        Source::Url { url } => url.clone(),
        Source::Upload {} => String::new(),
    };
    Ok((url, object.spec.checksum.clone().unwrap_or_default(), format_name(object.spec.format)))
}

pub(super) async fn pull(
    shared: &Shared,
    manager: &str,
    image: &ImageName,
    uuid: &ImageId,
    seal: Option<&Seal>,
    peers: &[PeerAddress],
) -> Result<api::Image, Status> {
    let (url, checksum, format) = spec(shared, image)?;
    let request = api::PullRequest {
        image: reference(image, uuid),
        url,
        checksum,
        format,
        seal: seal.map(Into::into),
        peers: peers.iter().map(peer).collect(),
    };
    within(TIMEOUT, calls(shared, manager)?.pull(request)).await
}

pub(super) async fn sync(
    shared: &Shared,
    manager: &str,
    image: &ImageName,
    uuid: &ImageId,
    seal: Option<&Seal>,
    peers: &[PeerAddress],
) -> Result<api::Image, Status> {
    let (_, checksum, format) = spec(shared, image)?;
    let request = api::SyncRequest {
        image: reference(image, uuid),
        peers: peers.iter().map(peer).collect(),
        seal: seal.map(Into::into),
        format,
        checksum,
    };
    within(TIMEOUT, calls(shared, manager)?.sync(request)).await
}

pub(super) async fn peers(
    shared: &Shared,
    manager: &str,
    image: &ImageName,
    uuid: &ImageId,
    peers: &[PeerAddress],
) -> Result<(), Status> {
    let request =
        api::PeersRequest { image: reference(image, uuid), peers: peers.iter().map(peer).collect() };
    within(TIMEOUT, calls(shared, manager)?.peers(request)).await.map(|_| ())
}

pub(super) async fn delete(
    shared: &Shared,
    manager: &str,
    image: &ImageName,
    uuid: &ImageId,
) -> Result<(), Status> {
    let request = api::DeleteRequest { image: reference(image, uuid) };
    within(LONG, calls(shared, manager)?.delete(request)).await.map(|_| ())
}

pub(super) async fn volume_create(
    shared: &Shared,
    manager: &str,
    volume: &ImageName,
    image: &ImageName,
    uuid: &ImageId,
    size: Option<u64>,
) -> Result<api::Volume, Status> {
    let request = api::VolumeCreateRequest { name: volume.to_string(), image: reference(image, uuid), size };
    within(LONG, calls(shared, manager)?.volume_create(request)).await
}

pub(super) async fn volume_delete(shared: &Shared, manager: &str, volume: &ImageName) -> Result<(), Status> {
    let request = api::VolumeDeleteRequest { name: volume.to_string() };
    within(LONG, calls(shared, manager)?.volume_delete(request)).await.map(|_| ())
}

pub(super) async fn offer(shared: &Shared, manager: &str) -> Result<Vec<api::Image>, Status> {
    let request = api::OwnershipTransferStartRequest {};
    within(TIMEOUT, calls(shared, manager)?.ownership_transfer_start(request))
        .await
        .map(|answer| answer.images)
}

pub(super) async fn confirm(shared: &Shared, manager: &str, images: Vec<api::Image>) -> Result<(), Status> {
    let request = api::OwnershipTransferConfirmRequest { images };
    within(TIMEOUT, calls(shared, manager)?.ownership_transfer_confirm(request)).await.map(|_| ())
}
