//! GET a URL: the check itself, and the client that the Kubernetes check uses too.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use reqwest::{Client, Response, redirect};

use super::attempt::Attempt;
use super::scripts::with_source;
use super::tls::{ClientPem, client_config};
use logic::period::Period;

/// How much of an answer is looked through for the expected text.
const MAX_BODY: usize = 1 << 20;
/// A file of certificates, a kubeconfig, a token.
const MAX_FILE: u64 = 4 << 20;
/// How much of an unexpected answer is repeated.
const EXCERPT: usize = 200;

/// What a check asks of the answer.
pub(crate) struct Expected<'a> {
    pub(crate) status: &'a [u16],
    pub(crate) contains: Option<&'a str>,
}

/// A client that follows no redirects (the answer is what the URL answers), uses no proxy and keeps nothing.
pub(crate) fn client(
    https: bool,
    ca: Option<&[u8]>,
    identity: Option<&ClientPem>,
    limit: Duration,
) -> Result<Client, String> {
    // Without https nothing is trusted, so the system's certificates need not be there.
    let tls = if https { client_config(ca, identity)? } else { bare_config()? };
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .timeout(limit)
        .pool_max_idle_per_host(1)
        .user_agent(concat!("holdfast/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| with_source(&error))
}

fn bare_config() -> Result<rustls::ClientConfig, String> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

pub(crate) async fn check(url: &str, expected: &Expected<'_>, ca: Option<&Path>, limit: Duration) -> Attempt {
    let (https, ca) = (url.starts_with("https:"), ca.map(Path::to_owned));
    let client = prepared(limit, move || {
        let ca = ca.as_deref().map(read_small).transpose()?;
        client(https, ca.as_deref(), None, limit)
    });
    let client = match client.await {
        Ok(client) => client,
        Err(why) => return Attempt::Unknown(why),
    };
    match client.get(url).send().await {
        Ok(response) => judge(response, expected).await,
        Err(error) => Attempt::Bad(failed(&error, limit)),
    }
}

async fn judge(mut response: Response, expected: &Expected<'_>) -> Attempt {
    let status = response.status();
    let good = match expected.status {
        [] => status.is_success(),
        list => list.contains(&status.as_u16()),
    };
    if !good {
        let (body, _) = body(&mut response, EXCERPT).await;
        let excerpt: String = String::from_utf8_lossy(&body).chars().take(EXCERPT).collect();
        let said = if excerpt.trim().is_empty() { String::new() } else { format!(": {}", excerpt.trim()) };
        return Attempt::Bad(format!("answered {status}{said}"));
    }
    let Some(text) = expected.contains else { return Attempt::Passed(format!("answered {status}")) };
    let (body, ending) = body(&mut response, MAX_BODY).await;
    if contains(&body, text.as_bytes()) {
        return Attempt::Passed(format!("answered {status} with the expected text"));
    }
    Attempt::Bad(match ending {
        BodyEnd::Whole => format!("answered {status} without {text:?}"),
        BodyEnd::Limit => format!("answered {status} without {text:?} in the first {MAX_BODY} bytes"),
        BodyEnd::Broken(why) => format!("answered {status}, then broke off: {why}"),
    })
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    text.is_empty() || body.windows(text.len()).any(|window| window == text)
}

pub(crate) enum BodyEnd {
    Whole,
    Limit,
    Broken(String),
}

/// The body, up to a limit.
pub(crate) async fn body(response: &mut Response, limit: usize) -> (Vec<u8>, BodyEnd) {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let left = limit - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(left)]);
                if chunk.len() > left {
                    return (body, BodyEnd::Limit);
                }
            }
            Ok(None) => return (body, BodyEnd::Whole),
            Err(error) => return (body, BodyEnd::Broken(with_source(&error))),
        }
    }
}

/// Reads files on a thread of its own: a file system that hangs must not stop the clock for all checks.
pub(crate) async fn prepared<T, E>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<String> + Send + 'static,
{
    match tokio::time::timeout(limit, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err("the check ended unexpectedly".to_owned().into()),
        Err(_) => Err("the files that it needs can't be read: the file system hangs".to_owned().into()),
    }
}

pub(crate) fn failed(error: &reqwest::Error, limit: Duration) -> String {
    if error.is_timeout() {
        return format!("no answer within {}", Period::from(limit));
    }
    // reqwest's own first line repeats the URL, which the configuration knows already.
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let what = if error.is_connect() { "can't connect" } else { "no proper answer" };
    format!("{what}: {cause}")
}

pub(crate) fn read_small(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > MAX_FILE => {
            Err(format!("{} is larger than {MAX_FILE} bytes", path.display()))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
