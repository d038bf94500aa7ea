//! Volumes: create on an image, look, remove.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use logic::images::{
    Disk, DiskId, FileState, ImageName, ImageSpec, Site, Source, Volume, VolumeSpec, differs,
};
use serde::Deserialize;
use wire::rest::CreateVolume;

use super::super::kinds::Volumes;
use super::super::state::Shared;
use super::answer::{Body, typed};
use super::failure::{Failure, Reason};
use super::images::{alive, checked, make, parse_name};
use super::watch::{ListQuery, list_or_watch};

/// What the image is made of, if there is none of this name.
#[derive(Debug, Deserialize)]
pub(super) struct CreateQuery {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    checksum: Option<String>,
}

pub(super) async fn index(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    list_or_watch::<Volumes>(&shared, &query, None).await
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    if query.watch {
        return list_or_watch::<Volumes>(&shared, &query, Some(&name)).await;
    }
    let volume = shared.volumes.get(&name).await?.ok_or_else(|| Failure::missing("volume", &name))?;
    Ok(typed::<Volumes>(&volume)?.into_response())
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<CreateQuery>,
    Body(request): Body<CreateVolume>,
) -> Result<Response, Failure> {
    let name = request.metadata.name;
    let image = request.spec.backing_image;
    let _admission = shared.admission.lock().await;
    let disk = {
        let view = shared.view();
        if view.site.volumes.contains_key(&name) {
            return Err(Failure::new(Reason::Exists, format!("there is a volume {name} already"))
                .hint(format!("choose another name, or remove it first: holdfast volume rm {name}")));
        }
        match alive(&view.site, &image) {
            Ok(there) => {
                let asked = (query.url.as_deref(), query.checksum.as_deref());
                if let Some(why) = differs(there, asked.0, asked.1) {
                    let text = format!("there is an image {image} already, and it is another one: {why}");
                    return Err(Failure::new(Reason::Refused, text).hint(
                        "leave out url and checksum to use it as it is, or choose another name for the image",
                    ));
                }
            }
            Err(failure) if view.site.images.contains_key(&image) => return Err(failure),
            Err(_) if query.url.is_some() => {}
            Err(failure) => {
                return Err(
                    failure.hint("create it first, or say where it comes from: url, and checksum if known")
                );
            }
        }
        choose_disk(&view.site, &image, request.spec.disk)?
    };
    let missing = !shared.view().site.images.contains_key(&image);
    if let Some(url) = query.url.filter(|_| missing) {
        let disks = BTreeSet::from([disk.clone()]);
        let spec = ImageSpec { source: Source::Url { url }, format: None, checksum: query.checksum, disks };
        make(&shared, &image, checked(spec)?).await?;
    }
    let spec =
        VolumeSpec { backing_image: image, disk, size: request.spec.size, upload: request.spec.upload };
    let volume = shared.volumes.create(&Volume::new(name.as_str(), spec)).await?;
    shared.adopt::<Volumes>(&name, volume.clone());
    Ok((StatusCode::CREATED, typed::<Volumes>(&volume)?).into_response())
}

fn choose_disk(site: &Site, image: &ImageName, given: Option<DiskId>) -> Result<DiskId, Failure> {
    if let Some(id) = given {
        return match site.disks.get(&id) {
            Some(disk) if !disk.is_deleted() => Ok(id),
            _ => {
                Err(Failure::missing("disk", id.as_str())
                    .hint("holdfast image disks lists those of the site"))
            }
        };
    }
    let on = site.images.get(image).map(|image| &image.status.disks);
    let rank = |id: &DiskId, disk: &Disk| {
        let state = on.and_then(|on| on.get(id)).map(|on_disk| on_disk.state);
        let has = match state {
            Some(FileState::Downloaded) => 2,
            Some(FileState::Downloading) => 1,
            _ => 0,
        };
        (has, disk.status.free)
    };
    let ready = site.disks.iter().filter(|(_, disk)| disk.status.ready && !disk.is_deleted());
    let best = ready.max_by_key(|(id, disk)| rank(id, disk));
    best.map(|(id, _)| id.clone()).ok_or_else(|| {
        Failure::new(Reason::Unavailable, "no disk of the site is ready")
            .hint("holdfast image disks says why")
    })
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let name = parse_name(&name)?;
    let volume = shared.volumes.mark_deleted(name.as_str()).await.map_err(|error| match error {
        store::Error::NotFound { .. } => Failure::missing("volume", name.as_str()),
        other => other.into(),
    })?;
    shared.adopt::<Volumes>(&name, volume.clone());
    Ok((StatusCode::ACCEPTED, typed::<Volumes>(&volume)?).into_response())
}
