//! Where signatures of images are: OpenPGP's in signature stores (`sha256=DIGEST/signature-N`, in a directory or behind a URL),
//! cosign's beside the image itself, under a tag that is made of its digest. Finding them; what they are worth is `trust`'s.

use std::path::PathBuf;
use std::time::SystemTime;

use reqwest::{StatusCode, Url};
use trust::container_signature::{self, ContainerSignatureError, Signed};
use trust::digest::{BadDigest, Digest};
use trust::openpgp::Keyring;

use crate::error::FetchError;
use crate::http::{self, Access};
use crate::limits::Limits;
use crate::manifest::{Descriptor, Manifest, ManifestError};
use crate::reference::ImageSource;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0:?} is not a URL")]
    Url(String),
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("cannot fetch {url}")]
    Request { url: String, source: reqwest::Error },
    #[error("{url} answered {status}")]
    Status { url: String, status: u16 },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: disk::Error },
    #[error("its digest")]
    Digest(#[source] BadDigest),
    #[error("there is no signature of {digest} in {store}")]
    Missing { digest: String, store: String },
    #[error("none of {count} signatures of {digest} holds; the first one")]
    Refused { digest: String, count: usize, source: ContainerSignatureError },
    #[error("what is signed beside the image, {digest}, is refused")]
    Beside { digest: Digest, source: ManifestError },
    #[error("a signature beside the image takes {size} bytes; up to {SIZE_LIMIT} are read")]
    TooLarge { size: u64 },
    #[error("interrupted")]
    Interrupted,
}

impl StoreError {
    /// Whether the same question may have another answer in a moment.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Fetch(error) => error.is_passing(),
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            Self::Request { .. } | Self::Interrupted => true,
            _ => false,
        }
    }
}

#[derive(Debug)]
pub enum SignatureStore {
    Directory(PathBuf),
    Web { base: Url, client: reqwest::Client },
}

/// An image that was signed more often than this is looked at only so far.
const MOST: usize = 16;
const SIZE_LIMIT: u64 = 1 << 20;

impl SignatureStore {
    pub fn open(place: &str, access: &Access, limits: &Limits) -> Result<Self, StoreError> {
        if !place.starts_with("https://") && !place.starts_with("http://") {
            return Ok(Self::Directory(place.into()));
        }
        let bad = || StoreError::Url(place.to_owned());
        let base = Url::parse(&format!("{}/", place.trim_end_matches('/'))).map_err(|_| bad())?;
        let host = base.host_str().ok_or_else(bad)?;
        let client = http::client(host, access, limits)?;
        Ok(Self::Web { base, client })
    }

    pub fn name(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Web { base, .. } => base.to_string(),
        }
    }

    /// Every signature that it has of a digest, unchecked.
    pub async fn all(&self, digest: &Digest) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = vec![];
        for number in 1..=MOST {
            let Some(signature) = self.get(digest, number).await? else { break };
            found.push(signature);
        }
        Ok(found)
    }

    /// One of the signatures, counted from 1; None where there are no more.
    async fn get(&self, digest: &Digest, number: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let name = signature_name(digest, number);
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                let shown = path.clone();
                let read =
                    tokio::task::spawn_blocking(move || disk::durable::read_limited(&path, SIZE_LIMIT));
                let read = read.await.map_err(|_| StoreError::Interrupted)?;
                read.map_err(|source| StoreError::Read { path: shown, source })
            }
            Self::Web { base, client } => {
                let url = base.join(&name).map_err(|_| StoreError::Url(name.clone()))?;
                let failed = |source| StoreError::Request { url: url.to_string(), source };
                let response = client.get(url.clone()).send().await.map_err(failed)?;
                match response.status() {
                    StatusCode::OK => Ok(Some(http::body(response, url.as_str(), SIZE_LIMIT).await?)),
                    StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
                    status => Err(StoreError::Status { url: url.to_string(), status: status.as_u16() }),
                }
            }
        }
    }
}

/// Below a store's top, counted from 1.
pub fn signature_name(digest: &Digest, number: usize) -> String {
    let (algorithm, digits) = digest.parts();
    format!("{algorithm}={digits}/signature-{number}")
}

/// Looks for one good signature of one of the digests, which all stand for the same image.
pub async fn verify(
    store: &SignatureStore,
    keys: &Keyring,
    candidates: &[&str],
) -> Result<Signed, StoreError> {
    let mut refused: Option<(ContainerSignatureError, String)> = None;
    let mut count = 0;
    for (position, candidate) in candidates.iter().enumerate() {
        if candidates[..position].contains(candidate) {
            continue;
        }
        let digest = Digest::parse(candidate).map_err(StoreError::Digest)?;
        for number in 1..=MOST {
            let Some(signature) = store.get(&digest, number).await? else { break };
            count += 1;
            match container_signature::verify(&signature, keys, &digest, SystemTime::now()) {
                Ok(signed) => return Ok(signed),
                Err(error) => refused = refused.or(Some((error, digest.to_string()))),
            }
        }
    }
    Err(match refused {
        Some((source, digest)) => StoreError::Refused { digest, count, source },
        None => StoreError::Missing {
            digest: candidates.first().copied().unwrap_or_default().to_owned(),
            store: store.name(),
        },
    })
}

/// What cosign's payloads are called.
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where a payload's signature is, in base64.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The tag under which signatures of an image are, in the same repository.
pub fn tag_beside(digest: &Digest) -> String {
    let (algorithm, digits) = digest.parts();
    format!("{algorithm}-{digits}.sig")
}

/// Whether a tag is of something that is said of another image: signatures, attestations, lists of parts.
pub fn is_said_of_another(tag: &str) -> bool {
    let of = [".sig", ".att", ".sbom"].iter().find_map(|end| tag.strip_suffix(end));
    of.is_some_and(|of| Digest::parse(&of.replacen('-', ":", 1)).is_ok())
}

/// A payload and its signature in base64, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    pub payload: Vec<u8>,
    pub signature: String,
}

/// The signatures that are beside an image; none where there is no such tag.
pub async fn beside(source: &ImageSource, digest: &Digest) -> Result<Vec<Beside>, StoreError> {
    let signatures = match source.repository.resolve(&tag_beside(digest)).await {
        Ok(signatures) => signatures,
        Err(error) if error.is_missing() => return Ok(vec![]),
        Err(error) => return Err(error.into()),
    };
    let bytes = source.repository.manifest(&signatures).await?;
    let layers = match Manifest::parse(&bytes) {
        Ok(Manifest::Image { layers, .. }) => layers,
        Ok(Manifest::List(_)) => vec![],
        Err(source) => return Err(StoreError::Beside { digest: signatures, source }),
    };
    let mut found = vec![];
    let is_payload = |layer: &Descriptor| layer.media_type == PAYLOAD;
    for layer in layers.into_iter().filter(is_payload).take(MOST) {
        let Some(signature) = layer.annotations.get(SIGNATURE) else { continue };
        if layer.size > SIZE_LIMIT {
            return Err(StoreError::TooLarge { size: layer.size });
        }
        let payload = source.repository.small_blob(&layer).await?;
        found.push(Beside { payload, signature: signature.clone() });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_an_image_is_told_from_images_by_its_tag() {
        let digest = Digest::sha256(b"x");
        let tag = tag_beside(&digest);
        assert_eq!(tag, format!("sha256-{}.sig", digest.parts().1));
        assert!(is_said_of_another(&tag) && is_said_of_another(&tag.replace(".sig", ".att")));
        for other in
            ["1.0.0", "sha256-00.sig", ".sig", "", &tag.replace(".sig", ""), &tag.replace("sha256", "md5")]
        {
            assert!(!is_said_of_another(other), "{other}");
        }
    }
}
