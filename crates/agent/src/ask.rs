//! Asking a graph service, as every client of the Cincinnati protocol does.

use std::time::Duration;

use logic::graph::document::Document;
use oci::manifest::Platform;
use reqwest::header::{ACCEPT, RETRY_AFTER};
use reqwest::{StatusCode, Url};
use semver::Version;
use serde::Deserialize;

use crate::settings::Settings;

/// A graph of ten thousand releases.
const GRAPH_BYTES: u64 = 64 << 20;
const COMPLAINT_BYTES: u64 = 16 << 10;
const CONNECT: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(60);
/// An answer may be long in coming, but something of it comes.
const SILENCE: Duration = Duration::from_secs(10);
/// Nobody who asks for more than a day means it.
const LONGEST_WAIT: u64 = 24 * 3600;

#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("interrupted")]
    Stopped,
    #[error("no graph service is set")]
    NoUpstream,
    #[error("no channel is set")]
    NoChannel,
    #[error("{0:?} is not the address of a graph service")]
    Address(String),
    #[error("{url} does not answer")]
    Request { url: String, source: reqwest::Error },
    #[error("{url} answered {status}{detail}")]
    Status { url: String, status: u16, detail: String, retry_after: Option<Duration> },
    #[error("the answer of {url}")]
    Body { url: String, source: oci::FetchError },
    #[error("what {url} answered is not a graph")]
    Malformed { url: String, source: serde_json::Error },
}

impl AskError {
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::NoUpstream => "`holdfast agent set --upstream URL`",
            Self::NoChannel => "`holdfast agent set --channel NAME`",
            Self::Address(_) => "write it like https://graph.example.com",
            Self::Status { status: 400, .. } => "see `holdfast agent status` for the channel and the version",
            _ => "see that the graph service runs, and can be reached from here",
        }
    }

    /// Whoever asks again may be answered, with nothing changed here.
    pub fn is_passing(&self) -> bool {
        !matches!(
            self,
            Self::NoUpstream | Self::NoChannel | Self::Address(_) | Self::Status { status: 400..=499, .. }
        )
    }

    pub fn told_to_wait(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    pub upstream: &'a str,
    pub channel: &'a str,
    pub version: &'a Version,
    /// Of this machine or cluster; a UUID.
    pub id: &'a str,
}

/// `https://HOST` is `https://HOST/v1/graph`; an address with a path is meant as it is.
fn address(question: &Question<'_>) -> Result<Url, AskError> {
    let bad = || AskError::Address(question.upstream.chars().take(200).collect());
    let mut url = Url::parse(question.upstream).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(bad());
    }
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/graph");
    }
    let version = question.version.to_string();
    url.query_pairs_mut()
        .append_pair("arch", &Platform::here().architecture)
        .append_pair("channel", question.channel)
        .append_pair("id", question.id)
        .append_pair("version", &version);
    Ok(url)
}

pub async fn ask(question: &Question<'_>, client: &reqwest::Client) -> Result<Document, AskError> {
    if question.upstream.is_empty() {
        return Err(AskError::NoUpstream);
    }
    if question.channel.is_empty() {
        return Err(AskError::NoChannel);
    }
    let url = address(question)?;
    // What is in the query is not for logs.
    let shown = format!("{}{}", url.origin().ascii_serialization(), url.path());
    let response = client
        .get(url)
        .header(ACCEPT, "application/json")
        .timeout(ANSWER)
        .send()
        .await
        .map_err(|source| AskError::Request { url: shown.clone(), source: source.without_url() })?;
    if response.status() != StatusCode::OK {
        return Err(refused(response, shown).await);
    }
    let body = oci::http::body(response, &shown, GRAPH_BYTES).await;
    let body = body.map_err(|source| AskError::Body { url: shown.clone(), source })?;
    serde_json::from_slice(&body).map_err(|source| AskError::Malformed { url: shown, source })
}

/// What a graph service says of its refusal.
#[derive(Deserialize)]
struct Complaint {
    value: String,
}

async fn refused(response: reqwest::Response, url: String) -> AskError {
    let status = response.status().as_u16();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let retry_after = seconds.map(|seconds: u64| Duration::from_secs(seconds.min(LONGEST_WAIT)));
    let body = oci::http::body(response, &url, COMPLAINT_BYTES).await.unwrap_or_default();
    let detail = serde_json::from_slice(&body).map(|Complaint { value }| value).unwrap_or_default();
    let detail: String = detail.chars().filter(|c| !c.is_control()).take(300).collect();
    let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
    AskError::Status { url, status, detail, retry_after }
}

/// For graphs and for Prometheus. Made once: reading what the system trusts takes longer than an answer.
pub fn client(settings: &Settings) -> Result<reqwest::Client, String> {
    let mut builder = oci::http::builder(settings.ca_file.as_deref())?.connect_timeout(CONNECT);
    builder = builder.read_timeout(SILENCE);
    // Connections are not kept: the next question is minutes away.
    builder = builder.pool_max_idle_per_host(0);
    if let Some(proxy) = &settings.proxy {
        let proxy = reqwest::Proxy::all(proxy).map_err(|error| format!("proxy {proxy:?}: {error}"))?;
        builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_env()));
    }
    builder.build().map_err(|error| oci::chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address_of(upstream: &str) -> Result<String, AskError> {
        let version = Version::new(4, 16, 1);
        let question = Question { upstream, channel: "stable & more", version: &version, id: "x" };
        address(&question).map(|url| url.to_string())
    }

    #[test]
    fn a_host_is_asked_at_the_usual_path_and_a_path_is_kept() {
        let plain = address_of("https://graph.example").unwrap();
        assert!(plain.starts_with("https://graph.example/v1/graph?arch="), "{plain}");
        assert!(plain.ends_with("&channel=stable+%26+more&id=x&version=4.16.1"), "{plain}");
        assert!(address_of("http://graph.example/api/graph").unwrap().contains("/api/graph?arch="));
        for bad in ["", "graph.example", "file:///etc/passwd", "https://"] {
            assert!(matches!(address_of(bad), Err(AskError::Address(_))), "{bad:?}");
        }
    }
}
