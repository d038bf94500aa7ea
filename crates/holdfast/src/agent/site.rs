//! Layers, through the image managers of a site: the first machine that wants one has the site fetch it, and the others have
//! it from their neighbours.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::agent::settings::Settings;
use ::images::client::{Client, Error};
use ::images::identity::Token;
use logic::exit::Exit;
use logic::images::{BackingImage, Disk, DiskId, FileState, Format, ImageName, Source};
use oci::save::{Blobs, Bringing};
use tokio::io::AsyncWriteExt;
use trust::digest::Digest;
use wire::rest::{Create, CreateSpec, Disks};

use crate::failure::{Failure, Result};
use crate::image::read_token;

/// Between two looks at how far the site is.
const LOOK: Duration = Duration::from_millis(300);
/// A site that gets no further for this long is not waited for: the registry is asked.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough of a digest for a name.
const DIGITS: usize = 40;

pub struct Site {
    client: Client,
    /// This machine's own disk of the site, where it has one: layers are copied from it.
    disk: Option<PathBuf>,
}

impl Site {
    /// None where the agent fetches for itself.
    pub fn of(settings: &Settings) -> Result<Option<Self>> {
        let Some(server) = &settings.site else { return Ok(None) };
        let token: Token = match &settings.site_token {
            Some(file) => read_token(file)?,
            None => return Err(Failure::usage("site is set, and site-token is not", "see [agent]")),
        };
        let client = Client::new(server, token)?;
        Ok(Some(Self { client, disk: settings.site_disk.clone() }))
    }

    async fn have(&self, repository: &str, digest: &Digest, size: u64, into: &Path) -> Result<bool, String> {
        let said = |error: Error| oci::chain(&error);
        let (_, digits) = digest.parts();
        let name = format!("layer-{}", digits.get(..DIGITS).unwrap_or(digits));
        let name = ImageName::parse(&name).map_err(|error| error.to_string())?;
        let own = self.own_disk().await.map_err(said)?;
        let wanted: Option<BTreeSet<DiskId>> = own.as_ref().map(|(id, _)| BTreeSet::from([id.clone()]));
        let source = Source::Url { url: origin(repository, digest) };
        let create = Create::of(
            name.clone(),
            CreateSpec {
                source,
                // Never looked into: a layer is a layer.
                format: Some(Format::Raw),
                checksum: Some(digest.as_str().to_owned()),
                disks: wanted.clone(),
            },
        );
        match self.client.create(&create, "1").await {
            Ok(_) => {}
            // Another machine was first: this one's disk is to have it, too.
            Err(error) if error.exit() == Exit::Refused => {
                if let Some(disks) = wanted {
                    self.client
                        .spread(&name, &Disks::Disks(disks.into_iter().collect()))
                        .await
                        .map_err(said)?;
                }
            }
            Err(error) => return Err(said(error)),
        }
        let image = self.until_there(&name, own.as_ref().map(|(id, _)| id)).await?;
        match own.and_then(|(_, path)| file(&image, &name, &path)) {
            Some(path) => copied(path, into.to_owned()).await.map_err(|error| error.to_string())?,
            None => self.streamed(&name, into).await?,
        }
        Ok(std::fs::metadata(into).is_ok_and(|about| about.len() == size))
    }

    async fn own_disk(&self) -> Result<Option<(DiskId, PathBuf)>, Error> {
        let Some(path) = &self.disk else { return Ok(None) };
        let here = |disk: &Disk| Path::new(&disk.spec.path) == path && disk.status.ready;
        let disks = self.client.disks().await?;
        let own = disks.into_iter().find(here).and_then(|disk| DiskId::parse(&disk.metadata.name).ok());
        Ok(own.map(|id| (id, path.clone())))
    }

    async fn until_there(&self, name: &ImageName, disk: Option<&DiskId>) -> Result<BackingImage, String> {
        let (mut best, mut since) = (0, tokio::time::Instant::now());
        loop {
            let image = self.client.image(name).await.map_err(|error| oci::chain(&error))?;
            let on = |id: &DiskId| disk.is_none_or(|disk| disk == id);
            let there: Vec<_> =
                image.status.disks.iter().filter(|(id, _)| on(id)).map(|(_, at)| at).collect();
            if there.iter().any(|at| at.state == FileState::Downloaded) {
                return Ok(image);
            }
            if let Some(failed) = there.iter().find(|at| at.state == FileState::Failed) {
                return Err(format!("the site can't fetch it: {}", failed.reason));
            }
            let bytes = there.iter().map(|at| at.bytes).max().unwrap_or_default();
            if bytes > best {
                (best, since) = (bytes, tokio::time::Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(format!("the site gets no further than {best} bytes"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn streamed(&self, name: &ImageName, into: &Path) -> Result<(), String> {
        let mut content = self.client.content(name).await.map_err(|error| oci::chain(&error))?;
        let mut file = tokio::fs::File::create(into).await.map_err(|error| error.to_string())?;
        while let Some(part) = content.next().await.map_err(|error| oci::chain(&error))? {
            file.write_all(&part).await.map_err(|error| error.to_string())?;
        }
        file.flush().await.map_err(|error| error.to_string())
    }
}

impl Blobs for Site {
    fn bring<'a>(
        &'a self,
        repository: &'a str,
        digest: &'a Digest,
        size: u64,
        into: &'a Path,
    ) -> Bringing<'a> {
        Box::pin(self.have(repository, digest, size, into))
    }
}

/// As sites name what is in a registry.
fn origin(repository: &str, digest: &Digest) -> String {
    match repository.strip_prefix("http://") {
        Some(repository) => format!("oci+http://{repository}@{digest}"),
        None => format!("oci://{}@{digest}", repository.strip_prefix("https://").unwrap_or(repository)),
    }
}

/// Of an image on a disk of this machine.
fn file(image: &BackingImage, name: &ImageName, disk: &Path) -> Option<PathBuf> {
    let id = image.status.uuid.as_ref()?;
    let path = disk.join("backing-images").join(format!("{name}-{id}")).join("backing");
    path.is_file().then_some(path)
}

async fn copied(from: PathBuf, into: PathBuf) -> io::Result<()> {
    let copy = tokio::task::spawn_blocking(move || std::fs::copy(from, into).map(drop));
    copy.await.map_err(io::Error::other)?
}
