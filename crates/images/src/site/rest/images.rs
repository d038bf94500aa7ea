//! Images: create, look, remove, clean up, spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use logic::images::{BackingImage, Disk, DiskId, ImageName, ImageSpec, Keep, Site, Source, may_clean_up};
use serde::Deserialize;
use serde_json::Value;
use wire::rest::{Create, CreateSpec};

use super::super::kinds::Images;
use super::super::state::Shared;
use super::answer::{Body, typed};
use super::failure::{Failure, Reason};
use super::watch::{ListQuery, list_or_watch};

const LONGEST_URL: usize = 4096;
/// Disks of one image.
const MOST_DISKS: usize = 2000;

/// How many disks; or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) enum Copies {
    All,
    Of(usize),
}

impl TryFrom<Value> for Copies {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number = match &value {
            Value::String(text) if text == "all" => return Ok(Self::All),
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
            _ => None,
        };
        match number {
            Some(number) if number <= MOST_DISKS => Ok(Self::Of(number)),
            _ => Err(format!("copies is a number up to {MOST_DISKS}, or all")),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct CreateQuery {
    #[serde(default)]
    copies: Option<String>,
}

pub(super) fn parse_name(text: &str) -> Result<ImageName, Failure> {
    ImageName::parse(text).map_err(|error| Failure::new(Reason::Invalid, error.to_string()))
}

pub(super) async fn index(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    list_or_watch::<Images>(&shared, &query, None).await
}

pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Failure> {
    if query.watch {
        return list_or_watch::<Images>(&shared, &query, Some(&name)).await;
    }
    let image = shared.images.get(&name).await?.ok_or_else(|| Failure::missing("image", &name))?;
    Ok(typed::<Images>(&image)?.into_response())
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<CreateQuery>,
    Body(request): Body<Create>,
) -> Result<Response, Failure> {
    let name = request.metadata.name;
    let copies = match query.copies {
        Some(text) => {
            Copies::try_from(Value::from(text)).map_err(|text| Failure::new(Reason::Invalid, text))?
        }
        None => Copies::Of(1),
    };
    let CreateSpec { source, format, checksum, disks } = request.spec;
    let _admission = shared.admission.lock().await;
    let disks = match disks {
        Some(disks) => known(&shared.view().site, disks)?,
        None => match some_disks(&shared.view().site, copies, &BTreeSet::new()) {
            none if none.is_empty() && copies != Copies::Of(0) => {
                return Err(Failure::new(Reason::Unavailable, "the site has no disk yet that could have it")
                    .hint("give `image serve` a disk with --disk, or let a manager join"));
            }
            some => some,
        },
    };
    let spec = checked(ImageSpec { source, format, checksum, disks })?;
    let image = make(&shared, &name, spec).await?;
    Ok((StatusCode::CREATED, typed::<Images>(&image)?).into_response())
}

/// What can be said to be wrong with it before anybody tries.
pub(super) fn checked(spec: ImageSpec) -> Result<ImageSpec, Failure> {
    let invalid = |text: String, hint: &str| Err(Failure::new(Reason::Invalid, text).hint(hint));
    if let Source::Url { url } = &spec.source {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme);
        if url.len() > LONGEST_URL || !matches!(scheme, Some("http" | "https" | "file" | "oci" | "oci+http"))
        {
            let short: String = url.chars().take(100).collect();
            return invalid(
                format!("{short:?} is not an address of an image"),
                "use https:, http:, file: or oci:",
            );
        }
    }
    if let Some(checksum) = &spec.checksum {
        let digits = checksum
            .strip_prefix("sha256:")
            .filter(|digits| digits.len() == 64)
            .or_else(|| checksum.strip_prefix("sha512:").filter(|digits| digits.len() == 128));
        if !digits.is_some_and(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
        {
            let text = "the checksum is not one".to_owned();
            return invalid(text, "write sha256: or sha512: and lower-case hexadecimal digits");
        }
    }
    if spec.disks.len() > MOST_DISKS {
        return invalid(format!("an image is on at most {MOST_DISKS} disks"), "name fewer");
    }
    Ok(spec)
}

/// Under the lock of admission.
pub(super) async fn make(
    shared: &Shared,
    name: &ImageName,
    spec: ImageSpec,
) -> Result<BackingImage, Failure> {
    let there = shared.view().site.images.get(name).cloned();
    if let Some(image) = there {
        return Err(match image.is_deleted() {
            true => Failure::new(Reason::Exists, format!("image {name} is still being removed"))
                .hint("wait until it is gone"),
            false => Failure::new(Reason::Exists, format!("there is an image {name} already"))
                .hint(format!("choose another name, or remove it first: holdfast image rm {name}")),
        });
    }
    let image = shared.images.create(&BackingImage::new(name.as_str(), spec)).await?;
    shared.adopt::<Images>(name, image.clone());
    Ok(image)
}

fn known(site: &Site, disks: BTreeSet<DiskId>) -> Result<BTreeSet<DiskId>, Failure> {
    match disks.iter().find(|disk| site.disks.get(disk).is_none_or(Disk::is_deleted)) {
        Some(stranger) => {
            Err(Failure::missing("disk", stranger.as_str())
                .hint("holdfast image disks lists those of the site"))
        }
        None => Ok(disks),
    }
}

/// Disks that don't have it yet: all that the site knows, because one that is away now gets it when it is back; or some, of
/// those that are ready first.
fn some_disks(site: &Site, copies: Copies, there: &BTreeSet<DiskId>) -> BTreeSet<DiskId> {
    let free = site.disks.iter().filter(|(id, disk)| !disk.is_deleted() && !there.contains(*id));
    let Copies::Of(count) = copies else { return free.map(|(id, _)| id.clone()).collect() };
    let (ready, away): (Vec<_>, Vec<_>) = free.partition(|(_, disk)| disk.status.ready);
    let mut nodes: BTreeSet<_> = there.iter().filter_map(|id| Some(&site.disks.get(id)?.spec.node)).collect();
    let mut chosen = BTreeSet::new();
    for mut free in [ready, away] {
        // On other nodes first, then those with the most room.
        free.sort_by_key(|(_, disk)| std::cmp::Reverse(disk.status.free));
        while chosen.len() < count {
            let rest = || free.iter().filter(|(id, _)| !chosen.contains(*id));
            let next = rest().find(|(_, disk)| !nodes.contains(&disk.spec.node)).or_else(|| rest().next());
            let Some((id, disk)) = next.copied() else { break };
            nodes.insert(&disk.spec.node);
            chosen.insert(id.clone());
        }
    }
    chosen
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
) -> Result<Response, Failure> {
    let name = parse_name(&name)?;
    let _admission = shared.admission.lock().await;
    let used = shared.view().site.users(&name).next().cloned();
    if let Some(volume) = used {
        return Err(Failure::new(Reason::Refused, format!("volume {volume} stands on image {name}"))
            .hint(format!("remove what uses it first: holdfast volume rm {volume}")));
    }
    let image = shared.images.mark_deleted(name.as_str()).await.map_err(|error| match error {
        store::Error::NotFound { .. } => Failure::missing("image", name.as_str()),
        other => other.into(),
    })?;
    shared.adopt::<Images>(&name, image.clone());
    Ok((StatusCode::ACCEPTED, typed::<Images>(&image)?).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cleanup {
    disks: BTreeSet<DiskId>,
}

pub(super) async fn cleanup(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Body(request): Body<Cleanup>,
) -> Result<Json<Value>, Failure> {
    let name = parse_name(&name)?;
    let _admission = shared.admission.lock().await;
    let image = {
        let view = shared.view();
        let image = alive(&view.site, &name)?;
        may_clean_up(&view.site, &view.rules, &name, image, &request.disks).map_err(|(disk, keep)| {
            let failure = Failure::new(Reason::Refused, format!("image {name} stays on disk {disk}: {keep}"));
            match &keep {
                Keep::Used(volume) => failure.hint(format!("remove the volume first: holdfast volume rm {volume}")),
                Keep::LastVerified | Keep::NoneVerified => failure.hint(format!(
                    "bring it to another disk first: holdfast image spread {name}; or remove it from the site: holdfast image rm {name}"
                )),
                Keep::NotThere => failure.hint(format!("holdfast image show {name} lists its disks")),
            }
        })?;
        image.clone()
    };
    change_disks(&shared, &name, image, |disks| disks.retain(|disk| !request.disks.contains(disk))).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spread {
    #[serde(default)]
    disks: Option<BTreeSet<DiskId>>,
    #[serde(default)]
    copies: Option<Copies>,
}

pub(super) async fn spread(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Body(request): Body<Spread>,
) -> Result<Json<Value>, Failure> {
    let name = parse_name(&name)?;
    let _admission = shared.admission.lock().await;
    let (image, more) = {
        let view = shared.view();
        let image = alive(&view.site, &name)?;
        let more = match (request.disks, request.copies) {
            (Some(disks), None) => known(&view.site, disks)?,
            (None, Some(Copies::All)) => some_disks(&view.site, Copies::All, &image.spec.disks),
            (None, Some(Copies::Of(count))) => {
                let missing = count.saturating_sub(image.spec.disks.len());
                some_disks(&view.site, Copies::Of(missing), &image.spec.disks)
            }
            _ => {
                return Err(Failure::new(Reason::Invalid, "it is not said where to")
                    .hint("give either disks or copies"));
            }
        };
        (image.clone(), more)
    };
    if image.spec.disks.len() + more.len() > MOST_DISKS {
        return Err(Failure::new(Reason::Refused, format!("an image is on at most {MOST_DISKS} disks")));
    }
    change_disks(&shared, &name, image, |disks| disks.extend(more)).await
}

pub(super) fn alive<'a>(site: &'a Site, name: &ImageName) -> Result<&'a BackingImage, Failure> {
    let image = site.images.get(name).ok_or_else(|| Failure::missing("image", name.as_str()))?;
    match image.is_deleted() {
        true => Err(Failure::new(Reason::Refused, format!("image {name} is being removed"))
            .hint("wait until it is gone, then create it again")),
        false => Ok(image),
    }
}

async fn change_disks(
    shared: &Shared,
    name: &ImageName,
    mut image: BackingImage,
    change: impl FnOnce(&mut BTreeSet<DiskId>),
) -> Result<Json<Value>, Failure> {
    // As it is stored now: the loop writes its status all the time.
    if let Some(stored) = shared.images.get(name.as_str()).await? {
        image = stored;
    }
    let mut disks = image.spec.disks.clone();
    change(&mut disks);
    for _ in 0..10 {
        image.spec.disks = disks.clone();
        match shared.images.update_spec(&image).await {
            Ok(image) => {
                shared.adopt::<Images>(name, image.clone());
                return typed::<Images>(&image);
            }
            Err(store::Error::Conflict { .. }) => match shared.images.get(name.as_str()).await? {
                Some(stored) => image = stored,
                None => return Err(Failure::missing("image", name.as_str())),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new(Reason::Conflict, format!("image {name} changes all the time")).hint("try again"))
}
