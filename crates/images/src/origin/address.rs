//! An image's address as people write it, and what it stands for.

use logic::images::ImageName;
use oci::Access;
use reqwest::Url;
use trust::digest::Digest;

use super::allow;
use super::body::{Known, Opened};
use super::error::OriginError;
use super::file::FileOrigin;
use super::http::HttpOrigin;
use crate::settings::OriginSettings;

const LONGEST: usize = 4096;

/// One image's origin, ready to be asked.
#[derive(Debug)]
pub struct Origin {
    kind: Kind,
    digest: Option<Digest>,
}

#[derive(Debug)]
enum Kind {
    Http(Box<HttpOrigin>),
    File(FileOrigin),
}

impl Origin {
    /// What the text stands for, if the configuration allows it. `image` is what a file in a directory must be called.
    pub fn parse(text: &str, image: &ImageName, settings: &OriginSettings) -> Result<Self, OriginError> {
        let bad = |why: String| OriginError::Address { text: text.chars().take(200).collect(), why };
        if text.len() > LONGEST {
            return Err(bad(format!("it is longer than {LONGEST} bytes")));
        }
        if let Some(rest) = text.strip_prefix("oci://") {
            return Self::blob(rest, "https", settings, &bad);
        }
        if let Some(rest) = text.strip_prefix("oci+http://") {
            allow::check_scheme(settings, "http")?;
            return Self::blob(rest, "http", settings, &bad);
        }
        let url = Url::parse(text).map_err(|error| bad(error.to_string()))?;
        allow::check_scheme(settings, url.scheme())?;
        let kind = if url.scheme() == "file" {
            if url.host().is_some() {
                return Err(bad("a file is on this machine: write file:///DIRECTORY/FILE".into()));
            }
            let path = url.to_file_path().map_err(|()| bad("it names no file".into()))?;
            Kind::File(FileOrigin::new(path, image.clone(), settings))
        } else {
            allow::check(settings, &url)?;
            Kind::Http(Box::new(HttpOrigin::new(url, None, settings)?))
        };
        Ok(Self { kind, digest: None })
    }

    /// `REGISTRY/REPOSITORY@sha256:…`
    fn blob(
        rest: &str,
        scheme: &str,
        settings: &OriginSettings,
        bad: &dyn Fn(String) -> OriginError,
    ) -> Result<Self, OriginError> {
        allow::check_scheme(settings, "oci")?;
        let parts = rest.split_once('@');
        let (name, digest) = parts.ok_or_else(|| bad("the blob's digest is missing".into()))?;
        let digest = Digest::parse(digest).map_err(|error| bad(error.to_string()))?;
        let registry = oci::address::registry(&format!("{scheme}://{name}"));
        let (base, repository) = registry.map_err(|why| bad(why.to_owned()))?;
        let path = format!("/v2/{repository}/blobs/{digest}");
        let url = base.join(&path).map_err(|error| bad(error.to_string()))?;
        allow::check(settings, &url)?;
        let access = Access { ca_file: settings.ca_file.clone(), ..Access::default() };
        let registry = oci::Authorizer::new(base, repository, access);
        let origin = HttpOrigin::new(url, Some(registry), settings)?;
        Ok(Self { kind: Kind::Http(Box::new(origin)), digest: Some(digest) })
    }

    /// What the address itself says about the bytes.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// For people.
    pub fn shown(&self) -> String {
        match &self.kind {
            Kind::Http(origin) => origin.shown(),
            Kind::File(origin) => origin.shown(),
        }
    }

    /// The bytes from `from` on, up to `end` if it is given. What was known of it before must still hold, or it is
    /// [`OriginError::Changed`]. The answer may begin at the beginning instead: [`Opened::start`] says so.
    pub async fn open(&self, from: u64, end: Option<u64>, known: &Known) -> Result<Opened, OriginError> {
        match &self.kind {
            Kind::Http(origin) => origin.open(from, end, known).await,
            Kind::File(origin) => origin.open(from, end, known).await,
        }
    }
}
