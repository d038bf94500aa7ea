//! A graph that came ready-made: a file, or what another graph service answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use logic::graph::Harvest;
use logic::graph::document::Document;
use oci::FetchError;
use oci::address::host_of;
use oci::counters::{FetchCounters, add};
use oci::http::{self, Access, body};
use oci::retry::retrying;
use reqwest::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};
use reqwest::{StatusCode, Url};

use crate::settings::Limits;

const ACCEPTED: &str = "application/vnd.redhat.cincinnati.v1+json, application/json;q=0.9";

pub(super) enum Ready {
    File { index: usize, path: PathBuf, limit: u64 },
    Service(Box<Service>),
}

pub(super) struct Service {
    index: usize,
    url: Url,
    http: reqwest::Client,
    limits: Limits,
    counters: Arc<FetchCounters>,
    /// What it said last, under its own mark.
    last: Option<(HeaderValue, Harvest)>,
}

impl Ready {
    pub(super) fn file(index: usize, path: PathBuf, limits: &Limits) -> Self {
        Self::File { index, path, limit: limits.graph_data_bytes }
    }

    pub(super) fn service(
        index: usize,
        url: Url,
        access: &Access,
        limits: &Limits,
        counters: Arc<FetchCounters>,
    ) -> Result<Self, FetchError> {
        let http = http::client(&host_of(&url), access, &limits.of_images())?;
        Ok(Self::Service(Box::new(Service {
            index,
            url,
            http,
            limits: limits.clone(),
            counters,
            last: None,
        })))
    }

    pub(super) async fn look(&mut self) -> Result<Harvest, FetchError> {
        match self {
            Self::File { index, path, limit } => {
                let (read, limit) = (path.clone(), *limit);
                let task = tokio::task::spawn_blocking(move || disk::durable::read_limited(&read, limit));
                let failed = |source| FetchError::File { path: path.clone(), source };
                match task.await.map_err(|_| FetchError::Interrupted)? {
                    Ok(Some(bytes)) => harvest(&bytes, *index, &shown(path)),
                    Ok(None) => Err(failed(std::io::ErrorKind::NotFound.into())),
                    Err(error) => Err(failed(std::io::Error::other(error))),
                }
            }
            Self::Service(service) => service.look().await,
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Service {
    async fn look(&mut self) -> Result<Harvest, FetchError> {
        let answer = retrying(self.limits.retries, &self.counters, || self.ask()).await?;
        let Some((mark, bytes)) = answer else {
            return Ok(self.last.as_ref().map(|(_, harvest)| harvest.clone()).unwrap_or_default());
        };
        let harvest = harvest(&bytes, self.index, self.url.as_str())?;
        self.last = mark.map(|mark| (mark, harvest.clone()));
        Ok(harvest)
    }

    /// None: nothing new.
    async fn ask(&self) -> Result<Option<(Option<HeaderValue>, Vec<u8>)>, FetchError> {
        let what = self.url.to_string();
        let mut request = self.http.get(self.url.clone()).header(ACCEPT, ACCEPTED);
        if let Some((mark, _)) = &self.last {
            request = request.header(IF_NONE_MATCH, mark);
        }
        add(&self.counters.gets, 1);
        let sent = request.timeout(self.limits.fetch_timeout.get()).send().await;
        let response = sent.map_err(|source| FetchError::Request { what: what.clone(), source })?;
        match response.status() {
            StatusCode::NOT_MODIFIED if self.last.is_some() => return Ok(None),
            status if status.is_success() => {}
            status => {
                let (status, detail) = (status.as_u16(), String::new());
                return Err(FetchError::Status { what, status, detail, retry_after: None });
            }
        }
        let mark = response.headers().get(ETAG).cloned();
        let bytes = body(response, &what, self.limits.graph_data_bytes).await?;
        add(&self.counters.bytes, bytes.len() as u64);
        Ok(Some((mark, bytes)))
    }
}

fn harvest(bytes: &[u8], index: usize, what: &str) -> Result<Harvest, FetchError> {
    let nonsense = |why: String| FetchError::Nonsense { what: what.to_owned(), why };
    let document: Document = serde_json::from_slice(bytes).map_err(|error| nonsense(error.to_string()))?;
    document.harvest(index).map_err(|error| nonsense(error.to_string()))
}
