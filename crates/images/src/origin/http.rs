//! An origin on the network. Redirections are followed here, hop by hop, so that each is checked like the first; names are
//! looked up here, so that what is connected to is what was checked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use oci::Authorizer;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_RANGE, LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER,
    TRANSFER_ENCODING,
};
use reqwest::{Client, Response, Url, redirect};
use tokio::sync::Mutex;

use super::allow::{self, host_of, is_local, shown};
use super::body::{Body, Known, Opened};
use super::error::OriginError;
use crate::file::Validators;
use crate::settings::OriginSettings;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Pages, never images, whatever their status says.
const PAGES: [&str; 5] =
    ["text/html", "application/xhtml+xml", "application/json", "application/xml", "text/xml"];

#[derive(Debug)]
pub(super) struct HttpOrigin {
    url: Url,
    settings: OriginSettings,
    /// Reaches no address of this machine or its links.
    guarded: Client,
    /// For hosts that may be there.
    open: Client,
    registry: Option<Authorizer>,
    authorization: Mutex<Option<HeaderValue>>,
}

/// Looks names up, and gives only addresses that may be asked.
struct Guard;

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| !is_local(address.ip())).collect();
            if allowed.is_empty() {
                return Err("it stands for addresses of this machine or its links only".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

impl HttpOrigin {
    pub(super) fn new(
        url: Url,
        registry: Option<Authorizer>,
        settings: &OriginSettings,
    ) -> Result<Self, OriginError> {
        let failed = |why: String| OriginError::Client { why };
        let client = |guarded: bool| {
            let mut builder = oci::http::builder(settings.ca_file.as_deref())
                .map_err(failed)?
                .redirect(redirect::Policy::none())
                // One stream in order is what HTTP/1 does best.
                .http1_only()
                .pool_max_idle_per_host(1)
                .connect_timeout(CONNECT_LIMIT.min(settings.stall_timeout.get()));
            builder = match &settings.proxy {
                Some(proxy) => {
                    let proxy = reqwest::Proxy::all(proxy).map_err(|error| failed(oci::chain(&error)))?;
                    builder.proxy(proxy)
                }
                // The environment's would look names up where nobody checks them.
                None => builder.no_proxy(),
            };
            if guarded && settings.proxy.is_none() {
                builder = builder.dns_resolver(Guard);
            }
            builder.build().map_err(|error| failed(oci::chain(&error)))
        };
        let (guarded, open) = (client(true)?, client(false)?);
        Ok(Self { url, settings: settings.clone(), guarded, open, registry, authorization: Mutex::default() })
    }

    pub(super) fn shown(&self) -> String {
        shown(&self.url)
    }

    pub(super) async fn open(
        &self,
        from: u64,
        end: Option<u64>,
        known: &Known,
    ) -> Result<Opened, OriginError> {
        let condition = condition(&known.validators);
        // Without a condition, parts of two images could be put together; only a checksum would find out.
        let partial = from > 0 && (condition.is_some() || known.checksum);
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if partial || end.is_some() {
            let last = end.map(|end| (end.saturating_sub(1)).to_string()).unwrap_or_default();
            insert(&mut headers, RANGE, &format!("bytes={from}-{last}"));
            if let Some(condition) = condition {
                insert(&mut headers, IF_RANGE, condition);
            }
        }
        let response = self.ask(&headers).await?;
        self.judge(response, from, partial, known)
    }

    /// The answer, wherever it comes from in the end.
    async fn ask(&self, headers: &HeaderMap) -> Result<Response, OriginError> {
        let mut url = self.url.clone();
        let mut authorized = false;
        let mut hops = 0;
        loop {
            let response = self.send(&url, headers).await?;
            let status = response.status();
            if status.as_u16() == 401
                && let Some(registry) =
                    self.registry.as_ref().filter(|_| !authorized && url.origin() == self.url.origin())
            {
                authorized = true;
                *self.authorization.lock().await = Some(self.authorize(registry, response.headers()).await?);
                continue;
            }
            if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            hops += 1;
            if hops > self.settings.redirects {
                return Err(OriginError::Redirects {
                    host: host_of(&self.url),
                    limit: self.settings.redirects,
                });
            }
            url = next_hop(&url, response.headers())?;
            allow::check_scheme(&self.settings, url.scheme())?;
            allow::check(&self.settings, &url)?;
        }
    }

    async fn send(&self, url: &Url, headers: &HeaderMap) -> Result<Response, OriginError> {
        let client = self.client(url).await?;
        let mut request = client.get(url.clone()).headers(headers.clone());
        // For the registry alone: the storage behind it must not see it.
        if url.origin() == self.url.origin()
            && let Some(header) = self.authorization.lock().await.clone()
        {
            request = request.header(AUTHORIZATION, header);
        }
        let stall = self.settings.stall_timeout.get();
        tokio::time::timeout(stall, request.send())
            .await
            .map_err(|_| OriginError::Stalled { address: shown(url), after: stall })?
            .map_err(|source| OriginError::Request { address: shown(url), source: source.without_url() })
    }

    /// The client that may ask this, after a look at what its name stands for: the refusal can then say it.
    async fn client(&self, url: &Url) -> Result<&Client, OriginError> {
        if allow::is_private_allowed(&self.settings, url) || self.settings.proxy.is_some() {
            return Ok(&self.open);
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let failed = |source| OriginError::Lookup { host: host.to_owned(), source };
        let found: Vec<IpAddr> =
            tokio::net::lookup_host((host, 0)).await.map_err(failed)?.map(|address| address.ip()).collect();
        match found.first() {
            Some(address) if found.iter().all(|address| is_local(*address)) => {
                Err(OriginError::Local { host: host_of(url), address: *address })
            }
            _ => Ok(&self.guarded),
        }
    }

    async fn authorize(
        &self,
        registry: &Authorizer,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, OriginError> {
        let mut client = &self.guarded;
        if let Some(token) = registry.token_address(headers) {
            allow::check(&self.settings, &token)?;
            client = self.client(&token).await?;
        }
        registry.answer(client, headers).await.map_err(OriginError::Registry)
    }

    fn judge(
        &self,
        response: Response,
        from: u64,
        partial: bool,
        known: &Known,
    ) -> Result<Opened, OriginError> {
        let address = self.shown();
        let (status, headers) = (response.status().as_u16(), response.headers());
        let changed = || OriginError::Changed { address: address.clone() };
        let nonsense = |why: &str| OriginError::Nonsense { address: address.clone(), why: why.to_owned() };
        let validators = validators(headers);
        let (start, total) = match status {
            200 => (0, number(headers, CONTENT_LENGTH)),
            206 => {
                let range = text(headers, CONTENT_RANGE).and_then(content_range);
                let (start, total) = range.ok_or_else(|| nonsense("a part without saying which"))?;
                if start != from {
                    return Err(nonsense("another part than was asked for"));
                }
                (start, total)
            }
            // Nothing lies there. That is the end, if it ends there; otherwise it became shorter.
            416 if from > 0 => {
                let total =
                    text(headers, CONTENT_RANGE).and_then(|text| text.strip_prefix("bytes */")?.parse().ok());
                return if total == Some(from) && !differs(&known.validators, &validators) {
                    let body = Body::stream(
                        futures_util::stream::empty(),
                        address,
                        self.settings.stall_timeout.get(),
                    );
                    Ok(Opened { start: from, total, validators, unproven: false, body })
                } else {
                    Err(changed())
                };
            }
            _ => {
                let wait = number(headers, RETRY_AFTER).map(Duration::from_secs);
                let retry_after = wait.map(|wait| wait.min(LONGEST_WAIT));
                return Err(OriginError::Status { address, status, retry_after });
            }
        };
        let kind = text(headers, CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if PAGES.contains(&kind.as_str()) && !known.checksum {
            return Err(OriginError::Page { address, kind });
        }
        if let Some(encoding) = text(headers, CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            return Err(OriginError::Encoding { address, encoding: encoding.chars().take(40).collect() });
        }
        if total.is_none() && text(headers, TRANSFER_ENCODING).is_none() && !known.checksum {
            // It ends with the connection, whyever that ends.
            return Err(OriginError::NoLength { address });
        }
        let limit = self.settings.largest;
        if total.is_some_and(|total| total > limit) {
            return Err(OriginError::TooLarge { address, limit });
        }
        let other_size = matches!((known.total, total), (Some(known), Some(total)) if known != total);
        if from > 0 && (other_size || differs(&known.validators, &validators)) {
            return Err(changed());
        }
        let unproven = start > 0 && partial && condition(&known.validators).is_none();
        let body = Body::http(response, address, self.settings.stall_timeout.get());
        Ok(Opened { start, total, validators, unproven, body })
    }
}

/// Whether two answers are known to be of different images.
fn differs(before: &Validators, now: &Validators) -> bool {
    match (&before.etag, &now.etag) {
        (Some(before), Some(now)) => before != now,
        _ => {
            matches!((&before.last_modified, &now.last_modified), (Some(before), Some(now)) if before != now)
        }
    }
}

/// What makes a part belong to the parts before.
fn condition(validators: &Validators) -> Option<&str> {
    validators.etag.as_deref().or(validators.last_modified.as_deref())
}

fn next_hop(from: &Url, headers: &HeaderMap) -> Result<Url, OriginError> {
    let nonsense = |why: &str| OriginError::Nonsense { address: shown(from), why: why.to_owned() };
    let location = text(headers, LOCATION).ok_or_else(|| nonsense("it leads on without saying where"))?;
    let next = from.join(location).map_err(|_| nonsense("it leads to no address"))?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(OriginError::Downgrade { from: shown(from) });
    }
    Ok(next)
}

fn validators(headers: &HeaderMap) -> Validators {
    // A weak one says that two versions are as good as each other, not that they are the same bytes.
    let etag = text(headers, ETAG).filter(|etag| etag.starts_with('"')).map(str::to_owned);
    let last_modified = text(headers, LAST_MODIFIED).map(str::to_owned);
    Validators { etag, last_modified }.limited()
}

/// Where `bytes 5-9/100` begins, and of how much.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
    let total: Option<u64> = if total == "*" { None } else { Some(total.parse().ok()?) };
    (start <= end && total.is_none_or(|total| end < total)).then_some((start, total))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    text(headers, name)?.trim().parse().ok()
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    // What can't be sent was not received in a header either.
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_by_its_range() {
        assert_eq!(content_range("bytes 5-9/100"), Some((5, Some(100))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for bad in ["", "bytes", "bytes 5-9", "bytes 9-5/100", "bytes 5-100/100", "bytes */100", "bytes -5/9"]
        {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_strong_validators_tell_versions_apart() {
        let mut headers = HeaderMap::new();
        insert(&mut headers, ETAG, "W/\"a\"");
        assert!(validators(&headers).is_empty());
        insert(&mut headers, ETAG, "\"a\"");
        assert_eq!(condition(&validators(&headers)), Some("\"a\""));
        insert(&mut headers, LAST_MODIFIED, "Mon, 01 Jan 2024 00:00:00 GMT");
        let both = validators(&headers);
        let other = Validators { etag: Some("\"b\"".into()), ..both.clone() };
        assert!(differs(&both, &other) && !differs(&both, &both) && !differs(&both, &Validators::default()));
    }
}
