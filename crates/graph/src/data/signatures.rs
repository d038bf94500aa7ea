//! Signatures of images, where signature stores keep them: `sha256=DIGEST/signature-N`, in a directory or behind a URL.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use oci::http;
use oci::{Access, FetchError};
use reqwest::{StatusCode, Url};
use trust::container_signature::{self, ContainerSignatureError, Signed};
use trust::digest::{BadDigest, Digest};
use trust::openpgp::Keyring;

use crate::settings::Limits;

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
    Read { path: PathBuf, source: std::io::Error },
    #[error("its digest")]
    Digest(#[source] BadDigest),
    #[error("there is no signature of {digest} in {store}")]
    Missing { digest: String, store: String },
    #[error("none of {count} signatures of {digest} holds; the first one")]
    Refused { digest: String, count: usize, source: ContainerSignatureError },
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
        let client = http::client(host, access, &limits.of_images())?;
        Ok(Self::Web { base, client })
    }

    fn name(&self) -> String {
        match self {
            Self::Directory(path) => path.display().to_string(),
            Self::Web { base, .. } => base.to_string(),
        }
    }

    /// One of the signatures, counted from 1; None where there are no more.
    async fn get(&self, digest: &Digest, number: usize) -> Result<Option<Vec<u8>>, StoreError> {
        let (algorithm, digits) = digest.parts();
        let name = format!("{algorithm}={digits}/signature-{number}");
        match self {
            Self::Directory(path) => {
                let path = path.join(name);
                match fs::metadata(&path) {
                    Ok(about) if about.len() > SIZE_LIMIT => {
                        Err(FetchError::TooLong { what: path.display().to_string(), limit: SIZE_LIMIT }
                            .into())
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    _ => fs::read(&path).map(Some).map_err(|source| StoreError::Read { path, source }),
                }
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
