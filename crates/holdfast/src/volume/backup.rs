//! A volume as a directory: its overlay, and what image it stands on. The image's bytes are not in it: they come from where
//! the image came from.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use logic::exit::Exit;
use logic::images::{BackingImage, FileState, ImageName, Source, Volume};
use serde::{Deserialize, Serialize};
use trust::digest::Digest;
use wire::rest::{Create, CreateSpec, CreateVolume, NewVolume};

use super::{Restore, show, until};
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::image::{Site, transfer};

const OVERLAY: &str = "overlay.qcow2";
const DOCUMENT: &str = "backup.json";
const DOCUMENT_LIMIT: u64 = 1 << 20;
const API_VERSION: &str = "holdfast.dev/v1alpha1";
const KIND: &str = "VolumeBackup";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Backup {
    api_version: String,
    kind: String,
    volume: ImageName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    image: Image,
    overlay: Overlay,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    name: ImageName,
    /// None for one that somebody uploaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Of all its bytes.
    checksum: Digest,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Overlay {
    size: u64,
    checksum: Digest,
}

fn failed(what: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
    let what = format!("can't {what} {}", path.display());
    move |error| Failure {
        exit: Exit::Unexpected,
        error: what.clone(),
        causes: vec![error.to_string()],
        hint: "see that the directory can be written, and that there is room".to_owned(),
    }
}

fn refused(error: String, hint: &str) -> Failure {
    Failure { exit: Exit::Refused, error, causes: vec![], hint: hint.to_owned() }
}

pub fn backup(site: &Site, name: &ImageName, to: &Path, global: &Global) -> Result<Exit> {
    let volume = site.ask(site.client.volume(name))?;
    let image = site.ask(site.client.image(&volume.spec.backing_image))?;
    let image = described(&volume, &image)?;
    fs::create_dir_all(to).map_err(failed("create", to))?;
    if fs::read_dir(to).map_err(failed("read", to))?.next().is_some() {
        return Err(refused(format!("{} is not empty", to.display()), "give a new directory with --to"));
    }
    let overlay = to.join(OVERLAY);
    let fetched = fetch(site, name, &overlay, global);
    let written = fetched.and_then(|overlay| {
        let (api_version, kind) = (API_VERSION.to_owned(), KIND.to_owned());
        let backup =
            Backup { api_version, kind, volume: name.clone(), size: volume.spec.size, image, overlay };
        let text = serde_json::to_vec_pretty(&backup).unwrap_or_default();
        // Last, and whole or not at all: without it there is no backup.
        disk::durable::write_durably(&to.join(DOCUMENT), &text)
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "see whether there is room"))
    });
    if written.is_err() {
        // What is there of it is no backup.
        let _ = fs::remove_file(&overlay);
    }
    written?;
    site.say(&format!("{name} is in {}", to.display()));
    Ok(Exit::Done)
}

fn described(volume: &Volume, image: &BackingImage) -> Result<Image> {
    let seal = image.status.seal.as_ref();
    let sealed =
        seal.filter(|_| volume.status.image_uuid.is_none() || volume.status.image_uuid == image.status.uuid);
    let Some(seal) = sealed else {
        let error = format!("the image {} of this volume is not known any more", volume.spec.backing_image);
        return Err(refused(error, "a backup without its image could not be restored"));
    };
    let url = match &image.spec.source {
        Source::Url { url } => Some(url.clone()),
        Source::Upload {} => None,
    };
    let checksum = Digest::parse(&seal.sha256)
        .map_err(|error| Failure::new(Exit::Unexpected, &error, "this is a defect"))?;
    Ok(Image { name: volume.spec.backing_image.clone(), url, checksum })
}

fn fetch(site: &Site, name: &ImageName, path: &Path, global: &Global) -> Result<Overlay> {
    let mut content = site.ask(site.client.overlay(name))?;
    let bar = transfer(global, name.as_str(), content.size);
    let mut file = File::create_new(path).map_err(failed("create", path))?;
    let mut hasher = Digest::sha256(&[]).hasher();
    let mut size = 0;
    while let Some(part) = site.ask(content.next())? {
        hasher.update(&part);
        file.write_all(&part).map_err(failed("write", path))?;
        size += part.len() as u64;
        bar.inc(part.len() as u64);
    }
    bar.finish_and_clear();
    file.sync_all().map_err(failed("sync", path))?;
    Ok(Overlay { size, checksum: hasher.finish() })
}

pub fn restore(site: &Site, asked: &Restore, global: &Global) -> Result<Exit> {
    let backup = read(&asked.from)?;
    let overlay = asked.from.join(OVERLAY);
    let name = asked.name.clone().unwrap_or_else(|| backup.volume.clone());
    let image = match &asked.backing_image {
        Some(told) => told.clone(),
        None => previous(site, &backup.image)?,
    };
    let spec = NewVolume {
        backing_image: image.clone(),
        disk: asked.place.disk(site)?,
        size: backup.size,
        upload: true,
    };
    let create = CreateVolume::of(name.clone(), spec);
    let volume = site.ask(site.client.create_volume(&create, None, None))?;
    let restored = fill(site, asked, &backup, &name, &volume, &overlay, global);
    if restored.is_err() {
        // It would wait for ever.
        let _ = site.ask(site.client.remove_volume(&name));
    }
    show(site, restored?, global)
}

fn fill(
    site: &Site,
    asked: &Restore,
    backup: &Backup,
    name: &ImageName,
    volume: &Volume,
    overlay: &Path,
    global: &Global,
) -> Result<Volume> {
    let image = &volume.spec.backing_image;
    let disk = &volume.spec.disk;
    let there = |image: &BackingImage| {
        image.status.disks.get(disk).is_some_and(|on| on.state == FileState::Downloaded)
    };
    until(site, name, asked.place.timeout, |_| {
        // An image that can't be asked for now is asked for again.
        let image = site.ask(site.client.image(image)).ok()?;
        there(&image).then_some(Ok(()))
    })?;
    if asked.backing_image.is_none() {
        same(&site.ask(site.client.image(image))?, &backup.image)?;
    }
    let bar = transfer(global, name.as_str(), Some(backup.overlay.size));
    let advancing = bar.clone();
    let sent =
        site.block_on(site.client.restore_volume(name, overlay, Box::new(move |bytes| advancing.inc(bytes))));
    bar.finish_and_clear();
    Ok(sent?)
}

/// The image of before: as it is in this site, or created anew from where it came from.
fn previous(site: &Site, image: &Image) -> Result<ImageName> {
    match site.block_on(site.client.image(&image.name)) {
        Ok(known) => same(&known, image)?,
        Err(::images::client::Error::Refused(status)) if status.code == 404 => {
            let Some(url) = &image.url else {
                let error =
                    format!("there is no image {} here, and it was uploaded: it has no address", image.name);
                let hint =
                    "upload it first, with `holdfast image upload`, or choose another with --backing-image";
                return Err(refused(error, hint));
            };
            let spec = CreateSpec {
                source: Source::Url { url: url.clone() },
                format: None,
                checksum: Some(image.checksum.to_string()),
                disks: None,
            };
            let create = Create::of(image.name.clone(), spec);
            site.ask(site.client.create(&create, "0"))?;
            site.say(&format!("the image {} is created from {url}", image.name));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(image.name.clone())
}

/// An overlay on another image than its own is rubbish.
fn same(known: &BackingImage, wanted: &Image) -> Result<()> {
    let known = known.status.seal.as_ref().map(|seal| seal.sha256.as_str());
    match known {
        Some(known) if known != wanted.checksum.as_str() => Err(refused(
            format!(
                "the image {} here is another one: {known}, and the volume stood on {}",
                wanted.name,
                wanted.checksum.as_str()
            ),
            "give the right one with --backing-image",
        )),
        _ => Ok(()),
    }
}

fn read(from: &Path) -> Result<Backup> {
    let path = from.join(DOCUMENT);
    let bytes = disk::durable::read_limited(&path, DOCUMENT_LIMIT)
        .map_err(|error| Failure::new(Exit::NotFound, &error, "give the directory of a backup"))?;
    let Some(bytes) = bytes else {
        return Err(Failure {
            exit: Exit::NotFound,
            error: format!("there is no backup in {}", from.display()),
            causes: vec![],
            hint: "give the directory that `holdfast volume backup` wrote".to_owned(),
        });
    };
    let damaged = |why: String| {
        let hint = "use another backup; nothing was changed";
        Failure {
            exit: Exit::MetadataDamaged,
            error: format!("{} is damaged: {why}", path.display()),
            causes: vec![],
            hint: hint.to_owned(),
        }
    };
    let backup: Backup = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if backup.kind != KIND || backup.api_version != API_VERSION {
        return Err(damaged(format!("it is {} of {}", backup.kind, backup.api_version)));
    }
    verify(&from.join(OVERLAY), &backup.overlay)?;
    Ok(backup)
}

fn verify(path: &Path, overlay: &Overlay) -> Result<()> {
    let mut file = File::open(path).map_err(failed("open", path))?;
    let mut hasher = overlay.checksum.hasher();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(failed("read", path))? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    let got = hasher.finish();
    if got == overlay.checksum {
        return Ok(());
    }
    Err(Failure {
        exit: Exit::MetadataDamaged,
        error: format!(
            "{} is damaged: it is {}, and was {}",
            path.display(),
            got.as_str(),
            overlay.checksum.as_str()
        ),
        causes: vec![],
        hint: "use another backup; nothing was changed".to_owned(),
    })
}
