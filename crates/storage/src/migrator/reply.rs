//! One request and its answer, so far as anybody wants to read it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use logic::storage::Answer;
use serde::Deserialize;
use tokio::time::Instant;

use super::throttle::Throttle;
use crate::metrics::Metrics;

pub(super) const JSON: &str = "application/json";
/// Of the objects no more than the metadata, from servers that can leave the rest out.
pub(super) const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
/// Nothing that can be stored is larger.
pub(super) const OBJECT_BYTES: usize = 32 * 1024 * 1024;
/// Of an answer that only tells what went wrong.
const ERROR_BYTES: usize = 16 * 1024;
/// More than API servers allow themselves for one request, which is a minute.
const ANSWERED_WITHIN: Duration = Duration::from_secs(90);

#[derive(Clone)]
pub(super) struct Requests {
    pub client: Client,
    pub throttle: Throttle,
    pub metrics: Arc<Metrics>,
}

pub(super) struct Ask {
    pub verb: &'static str,
    pub method: Method,
    pub path: String,
    pub accept: &'static str,
    pub body: Bytes,
    /// How many bytes of a good answer are wanted.
    pub most: usize,
}

pub(super) struct Reply {
    /// None when there was no answer.
    pub status: Option<u16>,
    pub body: Bytes,
    /// There was more than was wanted.
    pub cut: bool,
    pub began: Instant,
    retry_after: Option<Duration>,
    /// Why there is no answer.
    silence: String,
}

/// What a server says when it does not do what it was asked.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Said {
    message: String,
    metadata: SaidMetadata,
    details: SaidDetails,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaidMetadata {
    r#continue: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaidDetails {
    name: String,
}

impl Requests {
    pub async fn send(&self, ask: Ask) -> Reply {
        let began = Instant::now();
        let verb = ask.verb;
        let reply = match tokio::time::timeout(ANSWERED_WITHIN, self.exchange(ask, began)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => Reply::none(None, causes(&error), began),
            // Too slow with this one, if it answers others; else it is not there.
            Err(_) => {
                let status = self.throttle.answered_since(began).then_some(504);
                Reply::none(status, "no answer in time".to_owned(), began)
            }
        };
        self.metrics.request(verb, reply.status);
        reply
    }

    async fn exchange(&self, ask: Ask, began: Instant) -> kube::Result<Reply> {
        let mut request = Request::builder().method(ask.method).uri(ask.path).header("accept", ask.accept);
        if !ask.body.is_empty() {
            request = request.header("content-type", JSON);
        }
        let request = request.body(Body::from(ask.body)).map_err(kube::Error::HttpError)?;
        let response = self.client.send(request).await?;
        let good = response.status().is_success();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
        let status = Some(response.status().as_u16());
        let (body, cut) = read(response.into_body(), if good { ask.most } else { ERROR_BYTES }).await?;
        Ok(Reply { status, body, cut, began, retry_after, silence: String::new() })
    }
}

/// Reads a body, at most so much of it. Where nothing is wanted it is read and dropped piece by piece: a connection can
/// be used again only after the whole answer.
async fn read(mut body: Body, most: usize) -> kube::Result<(Bytes, bool)> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if most == 0 {
            continue;
        }
        if first.len() + all.len() + data.len() > most {
            return Ok((first, true));
        }
        // Most answers are one piece, which is not copied.
        match first.is_empty() && all.is_empty() {
            true => first = data,
            false => {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&data);
            }
        }
    }
    Ok((if all.is_empty() { first } else { all.freeze() }, false))
}

impl Reply {
    fn none(status: Option<u16>, silence: String, began: Instant) -> Self {
        Self { status, body: Bytes::new(), cut: false, began, retry_after: None, silence }
    }

    pub fn answer(&self) -> Answer {
        Answer { status: self.status, retry_after: self.retry_after }
    }

    fn said(&self) -> Said {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// In the server's own words, in one line.
    pub fn why(&self) -> String {
        let Some(status) = self.status else { return self.silence.clone() };
        let said = self.said().message;
        let text = String::from_utf8_lossy(&self.body);
        let text = if said.is_empty() { text.trim() } else { said.trim() };
        match text.is_empty() {
            true if self.silence.is_empty() => format!("answered with status {status}"),
            true => self.silence.clone(),
            false => text.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect(),
        }
    }

    /// Whether this is about an object by its name, and not about a path that nobody serves.
    pub fn names_an_object(&self) -> bool {
        !self.said().details.name.is_empty()
    }

    /// Leads on from where an expired token stood.
    pub fn offered_token(&self) -> Option<String> {
        Some(self.said().metadata.r#continue).filter(|token| !token.is_empty())
    }
}

/// An error with all that led to it: the outermost alone says little.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
