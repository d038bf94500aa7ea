//! Asking other services while a client waits: short limits, nothing held whole beyond its limit.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Response, Url};

use super::error::Error;

/// For a connection to be there at all.
const CONNECT: Duration = Duration::from_secs(3);

pub fn client(timeout: Duration) -> Result<Client, Error> {
    // Twice is no harm: whoever is first decides, and all decide alike.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder().timeout(timeout).connect_timeout(CONNECT.min(timeout));
    let agent = concat!("holdfast/", env!("CARGO_PKG_VERSION"));
    builder.user_agent(agent).build().map_err(|source| Error::Client(Box::new(source)))
}

pub fn address(what: &'static str, address: &str) -> Result<Url, Error> {
    let parsed = Url::parse(address).ok();
    let fitting = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    fitting.ok_or_else(|| Error::Address { what, address: address.to_owned(), source: None })
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the request failed")]
    Request(#[from] reqwest::Error),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    #[error("it answered with status {0}")]
    Status(reqwest::StatusCode),
    #[error("the answer can't be understood")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Version(#[from] logic::graph::document::UnknownVersion),
    #[error("too many are being asked for already")]
    Busy,
}

impl FetchError {
    /// With its causes, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// The body, as long as it stays within the limit.
pub async fn body(mut response: Response, limit: u64) -> Result<Bytes, FetchError> {
    let mut whole = BytesMut::new();
    while let Some(piece) = response.chunk().await? {
        if (whole.len() + piece.len()) as u64 > limit {
            return Err(FetchError::TooLarge(limit));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}
