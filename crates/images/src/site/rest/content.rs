//! Bytes of images and of volumes' overlays, up and down: passed on between the caller and a manager, a few pieces at a time.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE};
use http::{HeaderMap, StatusCode};
use logic::images::{Format, ImageId, ImageName, ManagerState, Source, VolumeState, VolumeStatus};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::images as api;

use super::super::act::set_volume_status;
use super::super::call::calls;
use super::super::kinds::{Images, Volumes};
use super::super::state::Shared;
use super::answer::typed;
use super::failure::{Failure, Reason};
use super::images::{alive, parse_name};

/// How long an upload waits for its image to be prepared, and how often it looks.
const PREPARED: std::time::Duration = std::time::Duration::from_secs(15);
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(50);
/// Of a message to a manager.
const PIECE: usize = 256 << 10;
/// Pieces that wait for the manager.
const WAITING: usize = 4;
/// No upload takes longer.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(86_400);

/// A manager that answers and has all of an image; of several, the first that is asked least.
fn holder(shared: &Shared, name: &ImageName) -> Result<(String, ImageId), Failure> {
    let view = shared.view();
    let image = alive(&view.site, name)?;
    let not_yet = || {
        Failure::new(Reason::Unavailable, format!("no disk that answers has all of image {name}"))
            .hint(format!("wait for it: holdfast image wait {name}"))
    };
    let uuid = image.status.uuid.clone().ok_or_else(not_yet)?;
    let sends = |key: &String| view.site.file(key, name, &uuid).map_or(u32::MAX, |file| file.sending);
    let holders = view.site.holders(&view.rules, name, image);
    let key = holders.map(|(key, _)| key).min_by_key(|key| sends(key)).cloned().ok_or_else(not_yet)?;
    Ok((key, uuid))
}

pub(super) async fn download(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let name = parse_name(&name)?;
    let (manager, uuid) = holder(&shared, &name)?;
    let what = api::read_request::What::Image(api::ImageRef::new(&name, &uuid));
    read(&shared, &manager, what, offset(&headers)?).await
}

pub(super) async fn backup(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let name = parse_name(&name)?;
    let manager = {
        let view = shared.view();
        let volume = view.site.volumes.get(&name).ok_or_else(|| Failure::missing("volume", name.as_str()))?;
        if volume.status.state != VolumeState::Ready {
            let text = format!("volume {name} is not ready: {}", volume.status.reason);
            return Err(Failure::new(Reason::Unavailable, text));
        }
        running(&view, &volume.spec.disk)?
    };
    read(&shared, &manager, api::read_request::What::Volume(name.to_string()), offset(&headers)?).await
}

fn running(view: &super::super::state::View, disk: &logic::images::DiskId) -> Result<String, Failure> {
    let manager = view.site.default_of(&view.rules, disk);
    let manager = manager.filter(|(_, manager)| manager.status.state == ManagerState::Running);
    manager.map(|(key, _)| key.clone()).ok_or_else(|| {
        Failure::new(Reason::Unavailable, format!("the manager of disk {disk} does not answer"))
            .hint("holdfast image disks says why")
    })
}

/// `Range: bytes=N-`, which is what resuming takes. Other ranges are left out, as the standard allows.
fn offset(headers: &HeaderMap) -> Result<Option<u64>, Failure> {
    let Some(range) = headers.get(RANGE).and_then(|range| range.to_str().ok()) else { return Ok(None) };
    let start = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-'));
    Ok(start.and_then(|start| start.parse().ok()))
}

async fn read(
    shared: &Shared,
    manager: &str,
    what: api::read_request::What,
    from: Option<u64>,
) -> Result<Response, Failure> {
    let offset = from.unwrap_or(0);
    let request = api::ReadRequest { what: Some(what), offset };
    let mut data = calls(shared, manager)?.read(request).await?.into_inner();
    let first = data.message().await?.unwrap_or_default();
    let size = first.size;
    let begin = stream::iter([Ok::<_, tonic::Status>(first.data)]);
    let rest = stream::unfold(data, |mut data| async move {
        match data.message().await {
            Ok(Some(piece)) => Some((Ok(piece.data), data)),
            Ok(None) => None,
            // The length was promised: breaking off tells the caller that this is not all.
            Err(status) => Some((Err(status), data)),
        }
    });
    let mut response = Body::from_stream(begin.chain(rest)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(size) = size {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(size.saturating_sub(offset)));
        if from.is_some()
            && offset < size
            && let Ok(range) =
                HeaderValue::from_str(&format!("bytes {offset}-{}/{size}", size.saturating_sub(1)))
        {
            headers.insert(CONTENT_RANGE, range);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    Ok(response)
}

/// The bytes of a new image, to one of its disks; from there it is spread.
pub(super) async fn upload(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let name = parse_name(&name)?;
    // Whoever uploads has mostly just created it: its uuid is stored, and its manager found, a moment later.
    let begin = tokio::time::Instant::now();
    let (manager, header) = loop {
        match receiver(&shared, &name, &headers) {
            Err(failure) if failure.is_passing() && begin.elapsed() < PREPARED => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            found => break found?,
        }
    };
    let first = api::UploadRequest { part: Some(api::upload_request::Part::Header(header)) };
    let piece = |data: Bytes| api::UploadRequest { part: Some(api::upload_request::Part::Data(data)) };
    let (messages, broken) = pass_on(first, body.into_data_stream(), piece, length(&headers));
    let mut calls = calls(&shared, &manager)?;
    let answer = finished(calls.upload(messages), &broken).await?;
    if let Ok((name, file)) = wire::file_status(&answer) {
        shared.listed_one(&manager, name, Some(file));
    }
    shared.poke(&manager);
    let image =
        shared.images.get(name.as_str()).await?.ok_or_else(|| Failure::missing("image", name.as_str()))?;
    typed::<Images>(&image)
}

/// Who takes an upload, and what it is told first.
fn receiver(
    shared: &Shared,
    name: &ImageName,
    headers: &HeaderMap,
) -> Result<(String, api::UploadHeader), Failure> {
    let view = shared.view();
    let image = alive(&view.site, name)?;
    if !matches!(image.spec.source, Source::Upload {}) {
        return Err(Failure::new(Reason::Refused, format!("image {name} comes from its address"))
            .hint("create an image to upload: holdfast image upload NAME FILE"));
    }
    if image.status.seal.is_some() {
        return Err(Failure::new(Reason::Exists, format!("image {name} was uploaded already"))
            .hint("an image does not change; upload it under another name"));
    }
    let Some(uuid) = &image.status.uuid else {
        return Err(Failure::new(Reason::Unavailable, format!("image {name} is new")).hint("try again"));
    };
    let disk = image.spec.disks.iter().find_map(|disk| running(&view, disk).ok());
    let manager = disk.ok_or_else(|| {
        Failure::new(Reason::Unavailable, format!("no manager of a disk of image {name} answers"))
            .hint("holdfast image disks says why")
    })?;
    let header = api::UploadHeader {
        image: Some(api::ImageRef::new(name, uuid)),
        checksum: image.spec.checksum.clone().unwrap_or_default(),
        format: match image.spec.format {
            None => String::new(),
            Some(Format::Raw) => "raw".to_owned(),
            Some(Format::Qcow2) => "qcow2".to_owned(),
        },
        size: length(headers),
    };
    Ok((manager, header))
}

/// The overlay of a volume that was backed up.
pub(super) async fn restore(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Failure> {
    let name = parse_name(&name)?;
    let (manager, header, uuid) = {
        let view = shared.view();
        let volume = view.site.volumes.get(&name).ok_or_else(|| Failure::missing("volume", name.as_str()))?;
        if !volume.spec.upload || volume.status.state == VolumeState::Ready {
            return Err(Failure::new(Reason::Refused, format!("volume {name} does not wait for an upload"))
                .hint("create one that does: holdfast volume restore"));
        }
        let image_name = &volume.spec.backing_image;
        let image = alive(&view.site, image_name)?;
        let manager = running(&view, &volume.spec.disk)?;
        let not_yet = || {
            Failure::new(
                Reason::Unavailable,
                format!("image {image_name} is not on disk {} yet", volume.spec.disk),
            )
            .hint(format!("wait for it: holdfast image wait {image_name}"))
        };
        let uuid = image.status.uuid.clone().ok_or_else(not_yet)?;
        let file = view.site.file(&manager, image_name, &uuid).ok_or_else(not_yet)?;
        if !view.site.is_verified(image, file) {
            return Err(not_yet());
        }
        let header = api::VolumeCreateRequest {
            name: name.to_string(),
            image: Some(api::ImageRef::new(image_name, &uuid)),
            size: volume.spec.size,
        };
        (manager, header, uuid)
    };
    let first = api::VolumeRestoreRequest { part: Some(api::volume_restore_request::Part::Header(header)) };
    let piece =
        |data: Bytes| api::VolumeRestoreRequest { part: Some(api::volume_restore_request::Part::Data(data)) };
    let (messages, broken) = pass_on(first, body.into_data_stream(), piece, length(&headers));
    let mut calls = calls(&shared, &manager)?;
    let made = finished(calls.volume_restore(messages), &broken).await?;
    let status = VolumeStatus {
        state: VolumeState::Ready,
        reason: String::new(),
        path: Some(made.path),
        image_uuid: Some(uuid),
    };
    set_volume_status(&shared, &name, status).await;
    let volume =
        shared.volumes.get(name.as_str()).await?.ok_or_else(|| Failure::missing("volume", name.as_str()))?;
    typed::<Volumes>(&volume)
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Messages to a manager, made of a body. If the body breaks off, the token is cancelled and the stream never ends by itself:
/// half of an image must not look like all of it.
fn pass_on<M: Send + 'static>(
    first: M,
    mut body: BodyDataStream,
    piece: impl Fn(Bytes) -> M + Send + 'static,
    length: Option<u64>,
) -> (impl Stream<Item = M> + Send + 'static, CancellationToken) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let broken = CancellationToken::new();
    let breaks = broken.clone();
    tokio::spawn(async move {
        if sender.send(first).await.is_err() {
            return;
        }
        let mut passed = 0_u64;
        loop {
            match body.next().await {
                Some(Ok(mut data)) => {
                    passed += data.len() as u64;
                    while !data.is_empty() {
                        let part = data.split_to(data.len().min(PIECE));
                        if sender.send(piece(part)).await.is_err() {
                            return;
                        }
                    }
                }
                // Said, because a call that is given up ends like one that is done.
                None if length.is_none_or(|length| length == passed) => {
                    let _ = sender.send(piece(Bytes::new())).await;
                    return;
                }
                None | Some(Err(_)) => {
                    breaks.cancel();
                    // Kept open until the call was dropped.
                    sender.closed().await;
                    return;
                }
            }
        }
    });
    let messages =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    (messages, broken)
}

async fn finished<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    broken: &CancellationToken,
) -> Result<T, Failure> {
    tokio::select! {
        answer = call => Ok(answer?.into_inner()),
        () = broken.cancelled() => {
            Err(Failure::new(Reason::Invalid, "the upload broke off").hint("upload it again"))
        }
        () = tokio::time::sleep(LONGEST) => {
            Err(Failure::new(Reason::Unavailable, "the upload took more than a day"))
        }
    }
}
