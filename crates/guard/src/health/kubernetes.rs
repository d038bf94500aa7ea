//! Asks the Kubernetes API for workloads. Whether they are ready is decided in `workload`.
//!
//! An API that does not answer, or not properly, leaves the workloads unknown; that is never "bad".

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::attempt::{Attempt, bounded};
use super::http::{BodyEnd, body, client, failed, prepared, read_small};
use super::kubeconfig::{Access, Held, Kubeconfig};
use super::tls::ClientPem;
use super::workload::{Object, Readiness, Workload, WorkloadKind, readiness};

/// The objects of one namespace, all of one kind.
const MAX_ANSWER: usize = 32 << 20;
/// How many workloads that are not ready are named.
const MAX_NAMED: usize = 10;
/// How much of an error answer is looked at.
const MAX_ERROR: usize = 16 << 10;

pub(crate) struct Asked<'a> {
    pub(crate) kubeconfig: &'a Path,
    pub(crate) context: Option<&'a str>,
    pub(crate) namespaces: &'a [String],
    pub(crate) workloads: &'a [Workload],
}

#[derive(Deserialize)]
struct List {
    items: Vec<Object>,
}

/// An API server's error answer, of kind `Status`.
#[derive(Deserialize)]
struct Failure {
    kind: String,
    message: String,
}

pub(crate) async fn check(asked: &Asked<'_>, limit: Duration) -> Attempt {
    let (kubeconfig, context) = (asked.kubeconfig.to_owned(), asked.context.map(str::to_owned));
    let api = prepared(limit, move || Api::open(&kubeconfig, context.as_deref(), limit));
    let api = match api.await {
        Ok(api) => api,
        Err(attempt) => return attempt,
    };
    let mut seen = 0;
    let mut waiting = Vec::new();
    let unknown = api.look(asked, &mut seen, &mut waiting).await.err();
    match (unknown, waiting.len()) {
        // What is known to be bad is bad, whatever else could not be asked.
        (_, 1..) => {
            let named: Vec<_> = waiting.iter().take(MAX_NAMED).cloned().collect();
            let more = waiting.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            Attempt::Bad(bounded(&format!("{}{more}", named.join("; "))))
        }
        (Some(why), 0) => Attempt::Unknown(bounded(&why)),
        (None, 0) => Attempt::Passed(format!("{seen} workloads are ready")),
    }
}

struct Api {
    client: Client,
    server: String,
    token: Option<String>,
    limit: Duration,
}

impl Api {
    fn open(path: &Path, context: Option<&str>, limit: Duration) -> Result<Self, Attempt> {
        let bytes = read_small(path).map_err(Attempt::Unknown)?;
        let text = String::from_utf8_lossy(&bytes);
        let dir = path.parent().unwrap_or(Path::new("."));
        let access = Kubeconfig::parse(&text).and_then(|config| config.access(context, dir));
        let access = access.map_err(|error| {
            let words = format!("{error}; {}", error.hint());
            if error.is_final() { Attempt::Hopeless(words) } else { Attempt::Unknown(words) }
        })?;
        Self::new(access, limit).map_err(Attempt::Unknown)
    }

    fn new(access: Access, limit: Duration) -> Result<Self, String> {
        let ca = access.ca.map(bytes).transpose()?;
        let identity = match access.identity.client {
            Some((certificate, key)) => {
                Some(ClientPem { certificate: bytes(certificate)?, key: bytes(key)? })
            }
            None => None,
        };
        let token = access.identity.token.map(bytes).transpose()?;
        let token = token.map(|token| String::from_utf8_lossy(&token).trim().to_owned());
        let https = access.server.starts_with("https:");
        let client = client(https, ca.as_deref(), identity.as_ref(), limit)?;
        Ok(Self { client, server: access.server, token, limit })
    }

    /// Goes through everything asked for, until something can't be asked.
    async fn look(
        &self,
        asked: &Asked<'_>,
        seen: &mut usize,
        waiting: &mut Vec<String>,
    ) -> Result<(), String> {
        let mut judge = |kind: WorkloadKind, namespace: &str, object: &Object| {
            *seen += 1;
            if let Readiness::Waiting(why) = readiness(kind, object) {
                waiting.push(format!("{}/{namespace}/{}: {why}", kind.name(), object.metadata.name));
            }
        };
        let mut absent = Vec::new();
        for Workload { kind, namespace, name } in asked.workloads {
            let path = format!("{namespace}/{}/{name}", kind.plural());
            match self.get::<Object>(&path).await? {
                Some(object) => judge(*kind, namespace, &object),
                None => absent.push(format!("{}/{namespace}/{name}: does not exist", kind.name())),
            }
        }
        for namespace in asked.namespaces {
            let mut any = false;
            for kind in WorkloadKind::ALL {
                let list = self.get::<List>(&format!("{namespace}/{}", kind.plural())).await?;
                let items = list.map(|list| list.items).unwrap_or_default();
                any |= !items.is_empty();
                items.iter().for_each(|object| judge(kind, namespace, object));
            }
            // At a first boot the namespace is there before what belongs into it.
            if !any {
                absent.push(format!("namespace {namespace}: has no workloads"));
            }
        }
        waiting.append(&mut absent);
        Ok(())
    }

    /// `None`: the API says that there is no such thing.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, String> {
        let url = format!("{}/apis/apps/v1/namespaces/{path}", self.server);
        let mut request = self.client.get(url).header("accept", "application/json");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let mut response =
            request.send().await.map_err(|error| format!("the API: {}", failed(&error, self.limit)))?;
        match response.status() {
            StatusCode::OK => {
                let (body, ending) = body(&mut response, MAX_ANSWER).await;
                match ending {
                    BodyEnd::Whole => serde_json::from_slice(&body)
                        .map(Some)
                        .map_err(|error| format!("the API's answer for {path}: {error}")),
                    BodyEnd::Limit => Err(format!("the API's answer for {path} is past {MAX_ANSWER} bytes")),
                    BodyEnd::Broken(why) => Err(format!("the API's answer for {path} broke off: {why}")),
                }
            }
            status => {
                let (body, _) = body(&mut response, MAX_ERROR).await;
                let failure = serde_json::from_slice::<Failure>(&body).ok();
                let failure = failure.filter(|failure| failure.kind == "Status");
                // A 404 without it comes from something that is no API server.
                if status == StatusCode::NOT_FOUND && failure.is_some() {
                    return Ok(None);
                }
                let said = failure.map(|failure| format!(": {}", failure.message)).unwrap_or_default();
                Err(format!("the API answered {status} for {path}{said}{}", way_out(status)))
            }
        }
    }
}

fn way_out(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; renew the credentials in the kubeconfig",
        StatusCode::FORBIDDEN => "; let this user get and list the workloads",
        _ => "",
    }
}

fn bytes(held: Held) -> Result<Vec<u8>, String> {
    match held {
        Held::Inline(bytes) => Ok(bytes),
        Held::File(path) => read_small(&path),
    }
}
