//! Volumes of a site.

use std::path::Path;

use http::Method;
use logic::images::{ImageName, Volume};
use wire::rest::CreateVolume;

use super::connect::{Client, Content};
use super::error::Error;
use super::files::{Advance, CopyError, file};

impl Client {
    pub async fn volumes(&self) -> Result<Vec<Volume>, Error> {
        self.items("/v1/volumes").await
    }

    pub async fn volume(&self, name: &ImageName) -> Result<Volume, Error> {
        self.object(self.request(Method::GET, &path(name))).await
    }

    /// Where its image is not known, it is created from this address, with this checksum.
    pub async fn create_volume(
        &self,
        create: &CreateVolume,
        url: Option<&str>,
        checksum: Option<&str>,
    ) -> Result<Volume, Error> {
        let given = [("url", url), ("checksum", checksum)];
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(given.into_iter().filter_map(|(key, value)| Some((key, value?))));
        self.object(self.post(&format!("/v1/volumes?{}", query.finish()), create)).await
    }

    pub async fn remove_volume(&self, name: &ImageName) -> Result<(), Error> {
        self.delete(&path(name)).await
    }

    /// Its overlay. It is whole only if its end comes without an error.
    pub async fn overlay(&self, name: &ImageName) -> Result<Content, Error> {
        self.bytes(&format!("{}/content", path(name))).await
    }

    /// Sends an overlay to a volume that waits for it.
    pub async fn restore_volume(
        &self,
        name: &ImageName,
        overlay: &Path,
        advance: Advance,
    ) -> Result<Volume, CopyError> {
        let (size, body) = file(overlay, advance).await?;
        Ok(self.put(&format!("{}/content", path(name)), size, body).await?)
    }
}

fn path(name: &ImageName) -> String {
    format!("/v1/volumes/{name}")
}
