//! An origin's answer: where it begins, what it says about itself, and its bytes.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::sync::mpsc;

use super::error::OriginError;
use crate::file::Validators;

/// What is known of the image that is asked for again.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub validators: Validators,
    pub total: Option<u64>,
    /// A checksum will tell in the end: parts may be put together although the origin does not say that they belong together.
    pub checksum: bool,
}

#[derive(Debug)]
pub struct Opened {
    /// Where the bytes begin: where it was asked, or at the beginning, if the origin can't do better.
    pub start: u64,
    /// Of the whole.
    pub total: Option<u64>,
    pub validators: Validators,
    /// The parts are of one image only if the checksum says so.
    pub unproven: bool,
    pub body: Body,
}

/// Bytes, as they come. An end that came too soon is an error, never an end.
pub struct Body {
    source: Source,
    address: String,
    received: u64,
    stall: Duration,
}

enum Source {
    Http(Box<reqwest::Response>),
    File(mpsc::Receiver<Result<Bytes, OriginError>>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, OriginError>> + Send>>),
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body")
            .field("address", &self.address)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Body {
    pub(super) fn http(response: reqwest::Response, address: String, stall: Duration) -> Self {
        Self { source: Source::Http(Box::new(response)), address, received: 0, stall }
    }

    pub(super) fn file(
        pieces: mpsc::Receiver<Result<Bytes, OriginError>>,
        address: String,
        stall: Duration,
    ) -> Self {
        Self { source: Source::File(pieces), address, received: 0, stall }
    }

    /// Bytes that somebody brings.
    pub fn stream(
        pieces: impl Stream<Item = Result<Bytes, OriginError>> + Send + 'static,
        address: String,
        stall: Duration,
    ) -> Self {
        Self { source: Source::Stream(Box::pin(pieces)), address, received: 0, stall }
    }

    /// Where it comes from, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, OriginError> {
        let (address, received) = (&self.address, self.received);
        let piece = async {
            match &mut self.source {
                Source::Http(response) => response.chunk().await.map_err(|source| OriginError::Broke {
                    address: address.clone(),
                    received,
                    source,
                }),
                Source::File(pieces) => pieces.recv().await.transpose(),
                Source::Stream(pieces) => pieces.next().await.transpose(),
            }
        };
        let piece = tokio::time::timeout(self.stall, piece)
            .await
            .map_err(|_| OriginError::Stalled { address: self.address.clone(), after: self.stall })??;
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Ok(piece)
    }
}
