//! Calls about volumes: they stand on images of this disk that are downloaded, and keep those from being deleted.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use logic::images::{ImageId, ImageName};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};
use wire::BadMessage;
use wire::images::volume_restore_request::Part;
use wire::images::{self as api, Data};

use super::error::Refusal;
use super::registry::{Registry, blocking};
use super::stream::{Stream_, stream_of};
use crate::transfer::Bandwidth;
use crate::volume::{Base, Found, Stamp, VolumeError, Volumes};

/// Messages of a backup on their way at once, and bytes in each.
const AHEAD: usize = 4;
const MESSAGE: usize = 1 << 20;

/// Runs what goes to the files of volumes, if the disk is still the disk: one in its place has volumes of its own.
async fn on_disk<T: Send + 'static>(
    registry: &Registry,
    work: impl FnOnce() -> Result<T, VolumeError> + Send + 'static,
) -> Result<T, Refusal> {
    let disk = Arc::clone(&registry.disk);
    blocking(move || {
        disk.check()?;
        Ok(work()?)
    })
    .await?
}

pub async fn create(
    registry: &Registry,
    volumes: &Arc<Volumes>,
    request: api::VolumeCreateRequest,
) -> Result<api::Volume, Refusal> {
    let (name, base) = asked(registry, &request)?;
    let volumes = Arc::clone(volumes);
    on_disk(registry, move || {
        volumes.create(&name, &base, request.size)?;
        Ok(shown(&volumes.get(&name)?))
    })
    .await
}

/// The header first, then the overlay.
pub async fn restore(
    registry: &Registry,
    volumes: &Arc<Volumes>,
    mut parts: Streaming<api::VolumeRestoreRequest>,
) -> Result<api::Volume, Refusal> {
    let first = parts.message().await.map_err(broken_off)?.and_then(|message| message.part);
    let Some(Part::Header(header)) = first else {
        return Err(Refusal::Argument("the header of a volume must come first".to_owned()));
    };
    let (name, base) = asked(registry, &header)?;
    let begin = (Arc::clone(volumes), name.clone());
    let mut restore = on_disk(registry, move || begin.0.restore(&begin.1, &base)).await?;
    loop {
        let message = parts.message().await.map_err(broken_off)?;
        // A call that was given up ends like this, too: half of an overlay must not become a volume.
        let Some(message) = message else {
            return Err(Refusal::Data("the overlay ended before its time".to_owned()));
        };
        let Some(Part::Data(data)) = message.part else {
            return Err(Refusal::Argument("a second header".to_owned()));
        };
        if data.is_empty() {
            break;
        }
        restore = blocking(move || restore.write_all(&data).map(|()| restore))
            .await?
            .map_err(|error| Refusal::Data(format!("can't write the overlay: {error}")))?;
    }
    let volumes = Arc::clone(volumes);
    on_disk(registry, move || {
        restore.finish(header.size)?;
        Ok(shown(&volumes.get(&name)?))
    })
    .await
}

fn broken_off(status: Status) -> Refusal {
    Refusal::Data(format!("the overlay ended before its time: {}", status.message()))
}

pub async fn delete(registry: &Registry, volumes: &Arc<Volumes>, name: &str) -> Result<(), Refusal> {
    let name = ImageName::parse(name).map_err(BadMessage::from)?;
    let volumes = Arc::clone(volumes);
    on_disk(registry, move || volumes.delete(&name)).await
}

pub async fn list(registry: &Registry, volumes: &Arc<Volumes>) -> Result<Vec<api::Volume>, Refusal> {
    let volumes = Arc::clone(volumes);
    let (found, damaged) = on_disk(registry, move || volumes.list()).await?;
    let mut all: Vec<_> = found.iter().map(shown).collect();
    all.extend(damaged.iter().map(|damaged| api::Volume {
        name: damaged.name.to_string(),
        path: damaged.overlay.display().to_string(),
        state: "failed".to_owned(),
        reason: damaged.to_string(),
        ..api::Volume::default()
    }));
    Ok(all)
}

/// That no volume of this disk stands on the image, nor one that does not tell what it stands on.
pub async fn none_on(registry: &Registry, volumes: &Arc<Volumes>, image: &ImageId) -> Result<(), Refusal> {
    let volumes = Arc::clone(volumes);
    let (found, damaged) = on_disk(registry, move || volumes.list()).await?;
    if let Some(found) = found.into_iter().find(|found| found.record.image_uuid == *image) {
        return Err(Refusal::InUse { image: found.record.image, volume: found.record.name });
    }
    match damaged.into_iter().next() {
        Some(damaged) => Err(Refusal::MayBeInUse(damaged)),
        None => Ok(()),
    }
}

/// The overlay's bytes. The stream ends well only if nobody wrote to it meanwhile.
pub async fn read(
    registry: &Registry,
    volumes: &Arc<Volumes>,
    name: &str,
    offset: u64,
    outgoing: Arc<Bandwidth>,
) -> Result<Stream_<Data>, Refusal> {
    let name = ImageName::parse(name).map_err(BadMessage::from)?;
    if offset > 0 {
        return Err(Refusal::Argument("a backup is read from its beginning".to_owned()));
    }
    let (opening, opened) = (Arc::clone(volumes), name.clone());
    let (file, stamp) = on_disk(registry, move || opening.read(&opened)).await?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (volumes, runtime) = (Arc::clone(volumes), Handle::current());
    tokio::task::spawn_blocking(move || {
        let pass = |bytes| runtime.block_on(outgoing.take(bytes));
        if let Err(refusal) = send(&volumes, &name, file, &stamp, &pass, &sender) {
            // Whoever is gone needs no reason.
            let _ = sender.blocking_send(Err(refusal.into()));
        }
    });
    Ok(stream_of(receiver))
}

fn send(
    volumes: &Volumes,
    name: &ImageName,
    mut file: File,
    stamp: &Stamp,
    pass: &dyn Fn(usize),
    sender: &mpsc::Sender<Result<Data, Status>>,
) -> Result<(), Refusal> {
    let mut size = Some(stamp.size);
    loop {
        let mut data = Vec::with_capacity(MESSAGE);
        let read = (&mut file as &mut dyn Read).take(MESSAGE as u64).read_to_end(&mut data);
        read.map_err(|error| Refusal::Data(format!("can't read the overlay of {name}: {error}")))?;
        let last = data.is_empty();
        pass(data.len());
        let message = Data { data: data.into(), size: size.take() };
        if (!last || message.size.is_some()) && sender.blocking_send(Ok(message)).is_err() {
            return Ok(());
        }
        if last {
            return Ok(volumes.unchanged(name, &file, stamp)?);
        }
    }
}

fn asked(registry: &Registry, request: &api::VolumeCreateRequest) -> Result<(ImageName, Base), Refusal> {
    let name = ImageName::parse(&request.name).map_err(BadMessage::from)?;
    let (image, uuid) = api::ImageRef::required(request.image.as_ref())?;
    let entry = registry.find(&image, &uuid)?;
    // Only a whole image has a shape.
    let shape = entry.file.shape().ok_or_else(|| Refusal::NotDownloaded(image.clone()))?;
    Ok((name, Base { name: image, uuid, format: shape.format, virtual_size: shape.virtual_size }))
}

fn shown(found: &Found) -> api::Volume {
    let record = &found.record;
    api::Volume {
        name: record.name.to_string(),
        image: Some(api::ImageRef { name: record.image.to_string(), uuid: record.image_uuid.to_string() }),
        path: found.path.display().to_string(),
        virtual_size: record.virtual_size,
        real_size: found.real_size,
        state: if found.trouble.is_some() { "failed" } else { "ready" }.to_owned(),
        reason: found.trouble.clone().unwrap_or_default(),
    }
}
