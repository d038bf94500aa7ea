//! A repository in a registry that speaks the distribution protocol, over HTTP or HTTPS.
//!
//! One attempt per call: whoever calls decides what is tried again, because only there it is known what was to be
//! believed. Everything is asked for by digest, except the digest of a tag itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_RANGE, HeaderValue, LINK, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio_util::io::StreamReader;

use crate::address::host_of;
use crate::auth::{self, Challenge, Credential};
use crate::counters::{FetchCounters, add};
use crate::error::FetchError;
use crate::http::{self, Access, body};
use crate::limits::Limits;
use crate::manifest::ACCEPTED;
use crate::unpack::Blob;
use trust::digest::Digest;

/// Tags that are asked for at once; registries cut it to what they like.
const PAGE: usize = 1000;
/// Of a page of tags: names are at most 128 bytes long, but not every registry cuts pages.
const PAGE_BYTES: u64 = 64 << 20;
/// Of a refusal's text, which is shown.
const DETAIL_BYTES: u64 = 64 << 10;

pub struct Registry {
    http: reqwest::Client,
    base: Url,
    repository: String,
    credential: Option<Credential>,
    authorization: Mutex<Authorization>,
    request_limit: Duration,
    manifest_bytes: u64,
    tags_limit: usize,
    counters: Arc<FetchCounters>,
}

/// What is sent with each request, once a registry asked for it.
#[derive(Clone, Default)]
struct Authorization {
    /// Goes up with each new one, so that of many requests refused at once only the first gets a new one.
    generation: u64,
    header: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct TagPage {
    #[serde(default)]
    tags: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    errors: Vec<RefusalEntry>,
}

#[derive(Deserialize)]
struct RefusalEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

impl Registry {
    /// `base` is the scheme and the host, with a port where it is not the usual one.
    pub(crate) async fn open(
        base: Url,
        repository: String,
        access: Access,
        limits: &Limits,
        counters: Arc<FetchCounters>,
    ) -> Result<Self, FetchError> {
        let host = host_of(&base);
        let http = http::client(&host, &access, limits)?;
        let lookup = tokio::task::spawn_blocking(move || auth::credential(&host, &access));
        let credential = lookup.await.unwrap_or(Err(FetchError::Interrupted))?;
        Ok(Self {
            http,
            base,
            repository,
            credential,
            authorization: Mutex::default(),
            request_limit: limits.fetch_timeout,
            manifest_bytes: limits.manifest_bytes,
            tags_limit: limits.images,
            counters,
        })
    }

    fn url(&self, rest: &str) -> Result<Url, FetchError> {
        let path = format!("/v2/{}/{rest}", self.repository);
        self.base.join(&path).map_err(|error| FetchError::Nonsense { what: path, why: error.to_string() })
    }

    /// One page of tags, and where the next one is.
    pub(crate) async fn tag_page(&self, next: Option<Url>) -> Result<(Vec<String>, Option<Url>), FetchError> {
        let what = format!("the tags of {}", self.repository);
        let url = match next {
            Some(url) => url,
            None => self.url(&format!("tags/list?n={PAGE}"))?,
        };
        let response = self.send(Method::GET, &url, &what, Some(self.request_limit)).await?;
        let next = match response.headers().get(LINK).and_then(|link| link.to_str().ok()).and_then(next_link)
        {
            Some(link) => Some(self.same_origin(&url, link, &what)?),
            None => None,
        };
        let bytes = body(response, &what, PAGE_BYTES).await?;
        add(&self.counters.bytes, bytes.len() as u64);
        // A page that was cut off on the way is no page.
        let page: TagPage = serde_json::from_slice(&bytes).map_err(|source| FetchError::Body {
            what,
            received: bytes.len() as u64,
            source: source.into(),
        })?;
        Ok((page.tags.unwrap_or_default(), next))
    }

    pub(crate) fn tags_limit(&self) -> usize {
        self.tags_limit
    }

    /// Credentials go with the request, so it must not lead elsewhere.
    fn same_origin(&self, from: &Url, link: &str, what: &str) -> Result<Url, FetchError> {
        let nonsense = |why: String| FetchError::Nonsense { what: what.to_owned(), why };
        let next = from.join(link).map_err(|error| nonsense(format!("the next page {link:?}: {error}")))?;
        if next.origin() == self.base.origin() {
            return Ok(next);
        }
        // Registries behind a proxy name themselves by the name that they know: the page is where we ask.
        let mut here = self.base.clone();
        here.set_path(next.path());
        here.set_query(next.query());
        Ok(here)
    }

    /// What a tag points at now.
    pub(crate) async fn resolve(&self, tag: &str) -> Result<Digest, FetchError> {
        let what = format!("tag {tag:?}");
        if !is_tag(tag) {
            return Err(FetchError::Nonsense { what, why: "no tag is written like that".to_owned() });
        }
        let url = self.url(&format!("manifests/{tag}"))?;
        let response = self.send(Method::HEAD, &url, &what, Some(self.request_limit)).await?;
        if let Some(header) = response.headers().get("docker-content-digest") {
            let text = String::from_utf8_lossy(header.as_bytes());
            return Digest::parse(&text)
                .map_err(|error| FetchError::Nonsense { what, why: error.to_string() });
        }
        // The header is not required of registries.
        let response = self.send(Method::GET, &url, &what, Some(self.request_limit)).await?;
        let bytes = body(response, &what, self.manifest_bytes).await?;
        add(&self.counters.bytes, bytes.len() as u64);
        Ok(Digest::sha256(&bytes))
    }

    /// Not checked yet.
    pub(crate) async fn manifest(&self, digest: &Digest) -> Result<Vec<u8>, FetchError> {
        let what = format!("manifest {digest}");
        let url = self.url(&format!("manifests/{digest}"))?;
        let response = self.send(Method::GET, &url, &what, Some(self.request_limit)).await?;
        let bytes = body(response, &what, self.manifest_bytes).await?;
        add(&self.counters.bytes, bytes.len() as u64);
        Ok(bytes)
    }

    /// Not checked yet. Each piece may take as long as a request.
    pub(crate) async fn blob(&self, digest: &Digest) -> Result<Blob, FetchError> {
        self.blob_from(digest, 0).await.map(|(blob, _)| blob)
    }

    /// As [`Self::blob`], from a byte on, where the registry can; and from which byte on it really is.
    pub(crate) async fn blob_from(&self, digest: &Digest, from: u64) -> Result<(Blob, u64), FetchError> {
        let what = format!("blob {digest}");
        let url = self.url(&format!("blobs/{digest}"))?;
        let asked = match self.send_from(Method::GET, &url, &what, None, from).await {
            // It has other ideas of where the blob ends, or none of ranges.
            Err(FetchError::Status { status: 416, .. }) if from > 0 => {
                self.send(Method::GET, &url, &what, None).await
            }
            asked => asked,
        };
        let response = asked?;
        let begins = |response: &Response| {
            let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
            range.strip_prefix("bytes ")?.split_once('-')?.0.trim().parse::<u64>().ok()
        };
        let starts = match response.status() {
            StatusCode::PARTIAL_CONTENT if begins(&response) == Some(from) => from,
            StatusCode::PARTIAL_CONTENT => {
                let why = format!("it was asked for from byte {from} on, and another part came");
                return Err(FetchError::Nonsense { what, why });
            }
            _ => 0,
        };
        let counters = Arc::clone(&self.counters);
        let pieces = response
            .bytes_stream()
            .inspect_ok(move |piece| add(&counters.bytes, piece.len() as u64))
            .map_err(std::io::Error::other);
        Ok((Box::pin(StreamReader::new(pieces)), starts))
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        what: &str,
        limit: Option<Duration>,
    ) -> Result<Response, FetchError> {
        self.send_from(method, url, what, limit, 0).await
    }

    /// What is asked for from a byte on may come whole.
    async fn send_from(
        &self,
        method: Method,
        url: &Url,
        what: &str,
        limit: Option<Duration>,
        from: u64,
    ) -> Result<Response, FetchError> {
        let mut authorization = self.authorization.lock().await.clone();
        for first in [true, false] {
            let mut request = self.http.request(method.clone(), url.clone());
            request = request.header(ACCEPT, ACCEPTED.join(", "));
            if let Some(header) = &authorization.header {
                request = request.header(AUTHORIZATION, header);
            }
            if let Some(limit) = limit {
                request = request.timeout(limit);
            }
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            add(if method == Method::HEAD { &self.counters.heads } else { &self.counters.gets }, 1);
            let sent = request.send().await;
            let response = sent.map_err(|source| FetchError::Request { what: what.to_owned(), source })?;
            match response.status() {
                status if status.is_success() => return Ok(response),
                StatusCode::UNAUTHORIZED if first => {
                    authorization = self.authorize(&response, authorization.generation).await?;
                }
                _ => return Err(self.refused(response, what).await),
            }
        }
        Err(self.denied("it asks for credentials again and again"))
    }

    async fn authorize(&self, response: &Response, refused: u64) -> Result<Authorization, FetchError> {
        let mut current = self.authorization.lock().await;
        if current.generation != refused {
            return Ok(current.clone());
        }
        let headers = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenge = headers.filter_map(|header| header.to_str().ok()).find_map(Challenge::parse);
        let challenge = challenge.ok_or_else(|| self.denied("it asks for credentials in an unknown way"))?;
        let answer =
            auth::answer(&self.http, &self.base, &self.repository, &challenge, self.credential.as_ref());
        let Some(answer) = answer.await? else {
            return Err(self.denied("it asks for a user and a password, and there are none for it"));
        };
        let mut header =
            HeaderValue::from_str(&answer).map_err(|_| self.denied("the token cannot be sent"))?;
        header.set_sensitive(true);
        *current = Authorization { generation: refused + 1, header: Some(header) };
        Ok(current.clone())
    }

    fn denied(&self, why: &str) -> FetchError {
        FetchError::Denied { host: host_of(&self.base), why: why.to_owned() }
    }

    async fn refused(&self, response: Response, what: &str) -> FetchError {
        let status = response.status().as_u16();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = body(response, what, DETAIL_BYTES).await.unwrap_or_default();
        let refusal: Option<Refusal> = serde_json::from_slice(&bytes).ok();
        let first = refusal.and_then(|refusal| refusal.errors.into_iter().next());
        let detail = first.map(|entry| format!("{} {}", entry.code, entry.message)).unwrap_or_default();
        let detail: String = detail.trim().chars().take(200).collect();
        match status {
            401 | 403 => {
                let credentials = match &self.credential {
                    Some(_) => "the credentials are refused",
                    None => "it wants credentials, and there are none for it",
                };
                self.denied(&format!("{credentials} (status {status}) for {what}"))
            }
            _ => FetchError::Status {
                what: what.to_owned(),
                status,
                detail: if detail.is_empty() { detail } else { format!(": {detail}") },
                retry_after: seconds.map(Duration::from_secs),
            },
        }
    }
}

/// As the distribution protocol has it; also what keeps a tag inside its path.
pub(crate) fn is_tag(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=128).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(inner)
}

/// `</v2/x/tags/list?last=y&n=100>; rel="next"`, perhaps among others.
fn next_link(header: &str) -> Option<&str> {
    header.split(',').find_map(|link| {
        let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = |parameter: &str| matches!(parameter.trim(), "rel=\"next\"" | "rel=next");
        parameters.split(';').any(is_next).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_links() {
        assert_eq!(
            next_link("</v2/a/tags/list?n=1&last=b>; rel=\"next\""),
            Some("/v2/a/tags/list?n=1&last=b")
        );
        assert_eq!(next_link("<x>; rel=\"prev\", <y>; rel=next"), Some("y"));
        assert_eq!(next_link("<x>; rel=\"prev\""), None);
        assert_eq!(next_link("nonsense"), None);
    }

    #[test]
    fn a_tag_stays_inside_its_path() {
        for text in ["4.16.15-x86_64", "_a", "latest"] {
            assert!(is_tag(text), "{text}");
        }
        for text in ["", "..", ".a", "a/b", "a?b", "a b", "ä", &"a".repeat(129)] {
            assert!(!is_tag(text), "{text}");
        }
    }
}
