//! One site, one token: requests and their answers.

use std::time::Duration;

use http::Method;
use logic::images::{BackingImage, BackingImageManager, Disk, DiskId, ImageName};
use reqwest::{RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::rest::{Create, Disks, Event, Kinded, List, MadeToken, NewToken, Token as TokenAbout};
use wire::site::Status;

use super::error::Error;
use super::lines::Lines;
use crate::identity::{Pinned, Token};

const CONNECT: Duration = Duration::from_secs(10);
/// For answers that are not streams.
const ANSWER: Duration = Duration::from_secs(60);
/// A watch or a download on which nothing comes for this long has ended; the site says something more often.
const SILENCE: Duration = Duration::from_secs(60);
/// A list of ten thousand images.
const ANSWER_BYTES: usize = 64 << 20;
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

#[derive(Debug, Clone)]
pub struct Client {
    server: String,
    token: Token,
    client: reqwest::Client,
}

/// The bytes of an image, as they come.
#[derive(Debug)]
pub struct Content {
    pub size: Option<u64>,
    answer: Response,
    got: u64,
}

impl Content {
    /// The next part; none at the end, which is an error if it comes too soon.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, Error> {
        let part = self.answer.chunk().await.map_err(|source| Error::Cut(source.without_url()))?;
        match (part, self.size) {
            (Some(part), _) => {
                self.got += part.len() as u64;
                Ok(Some(part))
            }
            (None, Some(expected)) if self.got != expected => Err(Error::Short { expected, got: self.got }),
            (None, _) => Ok(None),
        }
    }
}

/// Whether an address is on this machine by its looks.
fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).trim_matches(['[', ']']);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Client {
    /// `https://`, with the site's certificate pinned by the token; or `http://` on this machine.
    pub fn new(server: &str, token: Token) -> Result<Self, Error> {
        let address = || Error::Address(server.chars().take(200).collect());
        let server = server.trim().trim_end_matches('/');
        let (plain, host) = match (server.strip_prefix("https://"), server.strip_prefix("http://")) {
            (Some(host), _) => (false, host),
            (_, Some(host)) => (true, host),
            _ => return Err(address()),
        };
        if host.is_empty() || host.contains('/') {
            return Err(address());
        }
        if plain && !is_loopback(host) {
            return Err(Error::Plain(host.to_owned()));
        }
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(Pinned(token.fingerprint).client_config(&[HTTP2, HTTP1])?)
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(Error::Setup)?;
        Ok(Self { server: server.to_owned(), token, client })
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.server)).bearer_auth(self.token.to_string())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let answer = request.send().await.map_err(|source| Error::Unreachable {
            server: self.server.clone(),
            source: source.without_url(),
        })?;
        let code = answer.status();
        if code.is_success() {
            return Ok(answer);
        }
        let bytes = limited(answer).await?;
        match serde_json::from_slice::<Status>(&bytes) {
            Ok(mut status) if !status.message.is_empty() => {
                status.code = code.as_u16();
                Err(Error::Refused(Box::new(status)))
            }
            _ => Err(Error::Status(code)),
        }
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let bytes = limited(self.send(request.timeout(ANSWER)).await?).await?;
        serde_json::from_slice(&bytes).map_err(Error::Answer)
    }

    pub(super) async fn object<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        self.json::<Kinded<T>>(request).await.map(|kinded| kinded.object)
    }

    pub(super) async fn items<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Error> {
        self.json::<List<T>>(self.request(Method::GET, path)).await.map(|list| list.items)
    }

    pub(super) fn post(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }

    pub async fn images(&self) -> Result<Vec<BackingImage>, Error> {
        self.items("/v1/images").await
    }

    pub async fn image(&self, name: &ImageName) -> Result<BackingImage, Error> {
        self.object(self.request(Method::GET, &format!("/v1/images/{name}"))).await
    }

    /// On the disks that it names; or, where it names none, on as many as that: a number, or `all`.
    pub async fn create(&self, create: &Create, copies: &str) -> Result<BackingImage, Error> {
        let copies: String = copies.chars().filter(char::is_ascii_alphanumeric).collect();
        self.object(self.post(&format!("/v1/images?copies={copies}"), create)).await
    }

    pub async fn remove(&self, name: &ImageName) -> Result<(), Error> {
        self.delete(&format!("/v1/images/{name}")).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<(), Error> {
        self.send(self.request(Method::DELETE, path).timeout(ANSWER)).await?;
        Ok(())
    }

    /// From these disks.
    pub async fn cleanup(&self, name: &ImageName, disks: Vec<DiskId>) -> Result<BackingImage, Error> {
        self.object(self.post(&format!("/v1/images/{name}/cleanup"), &Disks::Disks(disks))).await
    }

    /// To these disks.
    pub async fn spread(&self, name: &ImageName, to: &Disks) -> Result<BackingImage, Error> {
        self.object(self.post(&format!("/v1/images/{name}/spread"), to)).await
    }

    pub async fn upload(
        &self,
        name: &ImageName,
        size: u64,
        body: reqwest::Body,
    ) -> Result<BackingImage, Error> {
        self.put(&format!("/v1/images/{name}/content"), size, body).await
    }

    /// Bytes in, the object that they became out.
    pub(super) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        size: u64,
        body: reqwest::Body,
    ) -> Result<T, Error> {
        let request = self
            .request(Method::PUT, path)
            .header(http::header::CONTENT_LENGTH, size)
            .header(http::header::CONTENT_TYPE, "application/octet-stream")
            .body(body);
        let bytes = limited(self.send(request).await?).await?;
        serde_json::from_slice::<Kinded<T>>(&bytes).map(|kinded| kinded.object).map_err(Error::Answer)
    }

    pub async fn content(&self, name: &ImageName) -> Result<Content, Error> {
        self.bytes(&format!("/v1/images/{name}/content")).await
    }

    pub(super) async fn bytes(&self, path: &str) -> Result<Content, Error> {
        let answer = self.send(self.request(Method::GET, path)).await?;
        Ok(Content { size: answer.content_length(), answer, got: 0 })
    }

    pub async fn watch_images(&self) -> Result<Lines, Error> {
        let answer = self.send(self.request(Method::GET, "/v1/images?watch=true")).await?;
        Ok(Lines::new(answer))
    }

    pub async fn disks(&self) -> Result<Vec<Disk>, Error> {
        self.items("/v1/disks").await
    }

    pub async fn managers(&self) -> Result<Vec<BackingImageManager>, Error> {
        self.items("/v1/managers").await
    }

    pub async fn tokens(&self) -> Result<Vec<TokenAbout>, Error> {
        self.items("/v1/tokens").await
    }

    pub async fn make_token(&self, new: &NewToken) -> Result<MadeToken, Error> {
        self.json(self.post("/v1/tokens", new)).await
    }

    pub async fn remove_token(&self, id: &str) -> Result<(), Error> {
        // An id is digits; whatever else was typed is no path.
        let id: String = id.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        self.delete(&format!("/v1/tokens/{id}")).await
    }
}

/// What a line of [`Client::watch_images`] is.
pub type ImageEvent = Event<BackingImage>;

async fn limited(mut answer: Response) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|source| Error::Cut(source.without_url()))? {
        if bytes.len() + part.len() > ANSWER_BYTES {
            return Err(Error::TooLong { limit: ANSWER_BYTES });
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_in_the_clear_to_this_machine_only() {
        let token = Token::new("ab".repeat(32).parse().expect("a fingerprint"));
        let client = |server: &str| Client::new(server, token.clone());
        for good in [
            "http://127.0.0.1:7420",
            "http://localhost:7420/",
            "http://[::1]:7420",
            "https://site.example:7420",
        ] {
            assert!(client(good).is_ok(), "{good}");
        }
        for plain in ["http://site.example:7420", "http://10.0.0.1", "http://127.0.0.1.example:80"] {
            assert!(matches!(client(plain), Err(Error::Plain(_))), "{plain}");
        }
        for bad in ["", "site", "ftp://x", "https://", "https://x/y"] {
            assert!(matches!(client(bad), Err(Error::Address(_))), "{bad}");
        }
    }
}
