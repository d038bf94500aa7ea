//! Disks and managers: look, and let a disk leave the site. Members join and register here.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use http::StatusCode;
use logic::images::{DiskId, Keep, may_clean_up};
use wire::site::{Join, Joined, Register, Registered};

use super::super::kinds::{Disks, Managers};
use super::super::members;
use super::super::state::Shared;
use super::admit::Caller;
use super::answer::{Body, typed};
use super::failure::{Failure, Reason};
use super::watch::{ListQuery, list_or_watch};
use crate::identity::Role;

pub(super) async fn index(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    list_or_watch::<Disks>(&shared, &query, None).await
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    if query.watch {
        return list_or_watch::<Disks>(&shared, &query, Some(&id)).await;
    }
    let disk = shared.disks.get(&id).await?.ok_or_else(|| Failure::missing("disk", &id))?;
    Ok(typed::<Disks>(&disk)?.into_response())
}

/// It leaves the site with its images: refused while something stands on them, or another disk has no copy.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Failure> {
    let id = DiskId::parse(&id).map_err(|error| Failure::new(Reason::Invalid, error.to_string()))?;
    let _admission = shared.admission.lock().await;
    {
        let view = shared.view();
        if !view.site.disks.contains_key(&id) {
            return Err(Failure::missing("disk", id.as_str()));
        }
        if let Some((path, _)) = view.configured.iter().find(|(_, there)| **there == id) {
            let text = format!("disk {id} is configured on this machine, at {}", path.display());
            return Err(Failure::new(Reason::Refused, text)
                .hint("take it out of the configuration and restart the service first"));
        }
        let disks = std::collections::BTreeSet::from([id.clone()]);
        for (name, image) in view.site.images.iter().filter(|(_, image)| image.spec.disks.contains(&id)) {
            let may = may_clean_up(&view.site, &view.rules, name, image, &disks);
            if let Err((_, keep @ (Keep::Used(_) | Keep::LastVerified))) = may {
                let text = format!("image {name} stays on disk {id}: {keep}");
                return Err(Failure::new(Reason::Refused, text)
                    .hint(format!("bring it to another disk first: holdfast image spread {name}")));
            }
        }
        if let Some((volume, _)) = view.site.volumes.iter().find(|(_, volume)| volume.spec.disk == id) {
            return Err(Failure::new(Reason::Refused, format!("volume {volume} is on disk {id}"))
                .hint(format!("holdfast volume rm {volume}")));
        }
    }
    let disk = shared.disks.mark_deleted(id.as_str()).await?;
    shared.adopt::<Disks>(&id, disk.clone());
    Ok((StatusCode::ACCEPTED, typed::<Disks>(&disk)?).into_response())
}

pub(super) async fn managers(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    list_or_watch::<Managers>(&shared, &query, None).await
}

pub(super) async fn manager(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let manager = shared.managers.get(&name).await?.ok_or_else(|| Failure::missing("manager", &name))?;
    let role = shared.view().rules.role(&manager).name();
    let Json(mut shown) = typed::<Managers>(&manager)?;
    shown["status"]["role"] = role.into();
    Ok(Json(shown).into_response())
}

pub(super) async fn join(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<Join>,
) -> Result<Json<Joined>, Failure> {
    if let Caller::Member(Role::Manager(disk)) = &caller
        && *disk != request.disk
    {
        let text = format!("the certificate is for disk {disk}, not for {}", request.disk);
        return Err(Failure::new(Reason::Forbidden, text).hint("join with a token"));
    }
    members::join(&shared, &request).map(Json)
}

pub(super) async fn register(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<Register>,
) -> Result<Json<Registered>, Failure> {
    let Caller::Member(role) = &caller else {
        return Err(Failure::new(Reason::Forbidden, "only managers register, with their certificate")
            .hint("start a manager with --join and a token"));
    };
    members::register(&shared, role, request).await.map(Json)
}
