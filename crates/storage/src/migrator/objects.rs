//! Reading a page of one resource's objects, and writing one back. What an answer means is `logic`'s to say; what to do
//! about it is the caller's.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use logic::storage::{Verdict, answer};
use tokio_util::sync::CancellationToken;

use super::page::{Metadata, Page, PageSize};
use super::paths::Paths;
use super::reply::{Ask, JSON, METADATA_ONLY, OBJECT_BYTES, Reply, Requests};

#[derive(Clone)]
pub(super) struct Objects {
    pub requests: Requests,
    pub paths: Arc<Paths>,
}

/// An object to write.
#[derive(Debug)]
pub(super) enum Object {
    /// As it was listed.
    Listed(Bytes),
    /// One that could not be written before: only its name is kept, and it is read once more.
    Named(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub namespace: String,
    pub name: String,
}

/// What came of one try to write an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried {
    Done,
    Throttled,
    /// The server is not there; `silent` if there was not even an answer that says so.
    Absent {
        why: String,
        silent: bool,
    },
    Failed {
        why: String,
        /// It is the server's fault, so it says, and perhaps not about this object.
        unwell: bool,
    },
    /// The account lacks a right: for this object as for all.
    Forbidden(String),
    /// Nobody serves the path: there is no such resource any more, or not yet.
    Unserved(String),
}

#[derive(Debug)]
pub(super) enum NotListed {
    TooLarge,
    /// The token is too old. With another that goes on at the same place, where the server offers one.
    Expired(Option<String>),
    Gone(String),
    Forbidden(String),
    Throttled,
    /// As [`Tried::Absent`].
    Absent {
        why: String,
        silent: bool,
    },
    Failed(String),
}

impl Objects {
    pub async fn list(&self, token: Option<&str>, size: &PageSize) -> Result<Page, NotListed> {
        self.requests.throttle.open().await;
        let path = self.paths.page(size.limit(), token);
        let ask = Ask {
            verb: "list",
            method: Method::GET,
            path,
            accept: JSON,
            body: Bytes::new(),
            most: size.most_bytes(),
        };
        let reply = self.requests.send(ask).await;
        if reply.status == Some(200) {
            return match reply.cut {
                true => Err(NotListed::TooLarge),
                false => Page::parse(&reply.body)
                    .map_err(|error| NotListed::Failed(format!("not a list: {error}"))),
            };
        }
        Err(match reply.status {
            // A token that this server does not understand leads nowhere either.
            Some(400) if token.is_some() => NotListed::Expired(None),
            Some(410) => NotListed::Expired(reply.offered_token()),
            Some(404) => NotListed::Gone(reply.why()),
            Some(403) => NotListed::Forbidden(reply.why()),
            _ => match answer(&reply.answer()) {
                Verdict::Throttled(pause) => {
                    self.requests.throttle.throttled(reply.began, pause);
                    NotListed::Throttled
                }
                Verdict::Absent => NotListed::Absent { why: reply.why(), silent: reply.status.is_none() },
                _ => NotListed::Failed(reply.why()),
            },
        })
    }

    /// Tries once to write an object back unchanged. The write counts only if nobody else wrote the object since it was
    /// read: its bytes name the version that they replace.
    pub async fn write(&self, object: &Object, stop: &CancellationToken) -> Tried {
        let _leave = self.requests.throttle.leave().await;
        let body = match object {
            Object::Listed(bytes) => bytes.clone(),
            Object::Named(name) => {
                let reply = self.get(self.paths.object(&name.namespace, &name.name), JSON).await;
                match reply.status {
                    Some(200) if reply.cut => return Tried::refused("it is too large to be read"),
                    Some(200) => reply.body,
                    _ => return self.judge(&reply),
                }
            }
        };
        let metadata = match Metadata::of(&body) {
            Ok(metadata) => metadata,
            Err(error) => return Tried::refused(format!("not an object: {error}")),
        };
        let path = self.paths.object(&metadata.namespace, &metadata.name);
        let ask = Ask {
            verb: "update",
            method: Method::PUT,
            path: path.clone(),
            accept: METADATA_ONLY,
            body: body.clone(),
            most: 0,
        };
        if stop.is_cancelled() {
            // Whoever waits for this is about to be dropped.
            return std::future::pending().await;
        }
        let put = self.requests.send(ask).await;
        if put.status.is_some() {
            self.requests.throttle.answered(put.began);
        }
        match answer(&put.answer()) {
            Verdict::Conflict => self.after_conflict(path, &metadata.resource_version, &put).await,
            _ => self.judge(&put),
        }
    }

    /// Somebody wrote it since it was listed, and so migrated it; unless the conflict is about something else.
    async fn after_conflict(&self, path: String, listed: &str, put: &Reply) -> Tried {
        let now = self.get(path, METADATA_ONLY).await;
        if now.status != Some(200) {
            return self.judge(&now);
        }
        match Metadata::of(&now.body) {
            Ok(now) if now.resource_version != listed => Tried::Done,
            Ok(_) => Tried::refused(put.why()),
            Err(error) => Tried::refused(format!("not an object: {error}")),
        }
    }

    async fn get(&self, path: String, accept: &'static str) -> Reply {
        let ask =
            Ask { verb: "get", method: Method::GET, path, accept, body: Bytes::new(), most: OBJECT_BYTES };
        self.requests.send(ask).await
    }

    fn judge(&self, reply: &Reply) -> Tried {
        match answer(&reply.answer()) {
            // A path that nobody serves is not an object that was deleted.
            Verdict::Done if reply.status == Some(404) && !reply.names_an_object() => {
                Tried::Unserved(reply.why())
            }
            Verdict::Done => Tried::Done,
            Verdict::Throttled(pause) => {
                self.requests.throttle.throttled(reply.began, pause);
                Tried::Throttled
            }
            Verdict::Absent => Tried::Absent { why: reply.why(), silent: reply.status.is_none() },
            Verdict::Refused if lacks_a_right(reply) => Tried::Forbidden(reply.why()),
            Verdict::Failed => Tried::Failed { why: reply.why(), unwell: true },
            Verdict::Conflict | Verdict::Refused => Tried::refused(reply.why()),
        }
    }
}

/// Authorization speaks of the resource; admission, which refuses single objects, has words of its own.
fn lacks_a_right(reply: &Reply) -> bool {
    let why = if reply.status == Some(403) { reply.why() } else { String::new() };
    ["cannot update resource", "cannot get resource"].iter().any(|it| why.contains(it))
}

impl Tried {
    fn refused(why: impl Into<String>) -> Self {
        Self::Failed { why: why.into(), unwell: false }
    }
}

impl Object {
    /// What it holds in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Listed(bytes) => bytes.len(),
            Self::Named(_) => 0,
        }
    }

    /// What is left of it when it has to be tried again later.
    pub fn into_name(self) -> Name {
        match self {
            Self::Named(name) => name,
            Self::Listed(bytes) => match Metadata::of(&bytes) {
                Ok(metadata) => {
                    Name { namespace: metadata.namespace.into_owned(), name: metadata.name.into_owned() }
                }
                Err(_) => Name { namespace: String::new(), name: String::new() },
            },
        }
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}
