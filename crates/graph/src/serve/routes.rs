//! From a request to its answer. The way to a graph that is ready has no waiting in it and hardly any allocation: look
//! up the bytes, put the headers on.

use std::convert::Infallible;
use std::future::{self, Ready as ReadyFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::Either;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use hyper::{Method, Request, Response, StatusCode};
use logic::graph::Owners;

use super::accept::{self, Encodings, MediaType};
use super::answer::Answer;
use super::owners::Owner;
use super::query::{Asked, BadQuery, Query};
use super::ready::Ready;
use super::reply::{self, Reply};
use super::signatures;
use super::site::{Live, Site};
use super::upstream::{Outcome, Question};
use crate::settings::Role;

const METHODS: &str = "GET, HEAD, OPTIONS";
const STALE: HeaderName = HeaderName::from_static("holdfast-graph-stale");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long an answer may be used without asking again.
const FRESH: HeaderValue = HeaderValue::from_static("max-age=30");
const VARIES: HeaderValue = HeaderValue::from_static("Accept-Encoding, Accept");
const EVERYBODY: HeaderValue = HeaderValue::from_static("*");

/// Which port a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Clients,
    Admin,
    /// Where one port is for both.
    Both,
}

/// What a request comes to: an answer that is there already, or one that has to be waited for.
pub struct Answering(Either<ReadyFuture<Answered>, Pin<Box<dyn Future<Output = Answered> + Send>>>);

type Answered = Result<Reply, Infallible>;

impl Future for Answering {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answered> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// Most requests find their answer made and end here, without a future of their own and without counting up the site's
/// references, which all connections share.
pub fn answer<B: Send + Sync + 'static>(site: &Arc<Site>, door: Door, request: Request<B>) -> Answering {
    if let Some(reply) = site.at_once(door, &request) {
        return Answering(Either::Left(future::ready(Ok(site.finished(&request, reply)))));
    }
    let site = Arc::clone(site);
    Answering(Either::Right(Box::pin(async move {
        let reply = site.route(door, &request).await;
        Ok(site.finished(&request, reply))
    })))
}

impl Site {
    fn at_once<B>(&self, door: Door, request: &Request<B>) -> Option<Reply> {
        let live = self.live.load();
        let path = request.uri().path();
        if door == Door::Admin || !live.paths.graphs.iter().any(|graph| graph == path) {
            return None;
        }
        method(request).or_else(|| self.graph_now(&live, request))
    }

    fn finished<B>(&self, request: &Request<B>, mut reply: Reply) -> Reply {
        let status = reply.status();
        self.metrics.answered(status);
        if status.is_server_error() {
            self.log(request, &mut reply);
        }
        if request.method() == Method::HEAD {
            let length = hyper::body::Body::size_hint(reply.body()).exact().unwrap_or(0);
            reply.headers_mut().insert(CONTENT_LENGTH, length.into());
            *reply.body_mut() = Full::default();
        }
        reply
    }

    async fn route<B>(&self, door: Door, request: &Request<B>) -> Reply {
        let live = self.live.load_full();
        let path = request.uri().path();
        if door != Door::Admin && live.paths.graphs.iter().any(|graph| graph == path) {
            return self.graph_later(&live, request).await;
        }
        self.other(door, path, request).await
    }

    async fn other<B>(&self, door: Door, path: &str, request: &Request<B>) -> Reply {
        let live = self.live.load_full();
        let paths = &live.paths;
        let admin = door != Door::Clients && matches!(path, "/livez" | "/readyz" | "/metrics");
        let client = door != Door::Admin && (path == paths.openapi || path.starts_with(&paths.signatures));
        if !admin && !client {
            return reply::not_found(path);
        }
        if let Some(reply) = method(request) {
            return reply;
        }
        match path {
            "/livez" if admin => reply::with_type(StatusCode::OK, "text/plain", "ok\n"),
            "/readyz" if admin => self.readiness(&live),
            "/metrics" if admin => {
                let page = self.metrics.render(&self.current, &self.ready.load());
                reply::with_type(StatusCode::OK, "text/plain; version=0.0.4", page)
            }
            path if path == paths.openapi => {
                reply::with_type(StatusCode::OK, MediaType::Json.as_str(), paths.document.clone())
            }
            path => {
                let rest = path.strip_prefix(&paths.signatures).unwrap_or_default();
                signatures::serve(live.settings.signatures_dir.as_deref(), path, rest).await
            }
        }
    }

    fn readiness(&self, live: &Live) -> Reply {
        if self.stopping.load(Ordering::Relaxed) {
            return reply::not_ready("the service is stopping");
        }
        match &**self.ready.load() {
            Ready::Nothing { reason } if live.upstream.is_none() => reply::not_ready(reason),
            _ => reply::with_type(StatusCode::OK, "text/plain", "ok\n"),
        }
    }

    /// The answer, unless somebody else must be asked for it first.
    fn graph_now<B>(&self, live: &Live, request: &Request<B>) -> Option<Reply> {
        let Some(kind) = accept::media_type(request.headers()) else { return Some(not_acceptable()) };
        if live.upstream.is_some() {
            return None;
        }
        let ready = self.ready.load();
        let Ready::Graph { answers, .. } = &**ready else { return Some(self.nothing(&ready)) };
        if let Some(whole) = answers.whole() {
            self.metrics.cache_hits.add();
            return Some(self.finish(&ready, kind, request.headers(), whole));
        }
        let query = request.uri().query().unwrap_or_default();
        let asked = Query::parse(query).and_then(|query| query.asked(&live.settings.required_parameters));
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => return Some(bad_query(&error)),
        };
        let applying = applying_now(live, &answers.owners, &asked)?;
        Some(self.graph(&ready, kind, request.headers(), &asked, applying))
    }

    /// The same, with an owner or an upstream service to be asked.
    async fn graph_later<B>(&self, live: &Live, request: &Request<B>) -> Reply {
        let kind = accept::media_type(request.headers()).unwrap_or(MediaType::Json);
        let raw = request.uri().query().unwrap_or_default();
        let query = match Query::parse(raw) {
            Ok(query) => query,
            Err(error) => return bad_query(&error),
        };
        let asked = match query.asked(&live.settings.required_parameters) {
            Ok(asked) => Some(asked),
            Err(_) if live.settings.role == Role::Builder && live.upstream.is_some() => None,
            Err(error) => return bad_query(&error),
        };
        let owner = match &asked {
            Some(asked) => self.owner(live, asked).await,
            None => Owner::None,
        };
        let applying = |owners: &Owners, asked: &Asked| {
            owners.applying(asked.id.as_deref().unwrap_or_default(), owner.name(), &asked.channel)
        };
        let Some(upstream) = &live.upstream else {
            let ready = self.ready.load_full();
            let Ready::Graph { answers, .. } = &*ready else { return self.nothing(&ready) };
            let Some(asked) = asked else { return self.nothing(&ready) };
            let applying = applying(&answers.owners, &asked);
            return self.graph(&ready, kind, request.headers(), &asked, applying);
        };
        let applying = asked.as_ref().map(|asked| applying(&live.owners, asked)).unwrap_or_default();
        let question = Question {
            parameters: query.sorted(),
            asked,
            owners: &live.owners,
            applying,
            data: &self.data.load_full(),
        };
        match upstream.ask(question, &self.metrics).await {
            Outcome::Answer { answer, stale } => {
                let mut reply = respond(kind, request.headers(), &answer);
                if let Some((age, why)) = stale {
                    self.metrics.stale_answers.add();
                    reply.headers_mut().insert(AGE, age.as_secs().into());
                    reply.headers_mut().insert(STALE, reply::header_text(&why));
                }
                reply
            }
            Outcome::Refused { status, body } => {
                let status = StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::BAD_REQUEST);
                reply::with_type(status, MediaType::Json.as_str(), body)
            }
            Outcome::Failed(why) => reply::failure(StatusCode::BAD_GATEWAY, "failed_upstream_fetch", why),
        }
    }

    async fn owner(&self, live: &Live, asked: &Asked<'_>) -> Owner {
        let (Some(lookup), Some(id)) = (&live.lookup, asked.id.as_deref()) else { return Owner::None };
        if !live.owners.needs_owners() || live.owners.ids.contains_key(id) {
            return Owner::None;
        }
        match lookup.remembered(id) {
            Some(owner) => owner,
            None => lookup.ask(id, &self.metrics).await,
        }
    }

    fn graph(
        &self,
        ready: &Ready,
        kind: MediaType,
        headers: &HeaderMap,
        asked: &Asked,
        applying: Vec<u32>,
    ) -> Reply {
        let Ready::Graph { answers, .. } = ready else { return self.nothing(ready) };
        let reply = |answer: &Answer| self.finish(ready, kind, headers, answer);
        let (reply, hit) = answers.with(asked, applying, reply);
        if hit {
            self.metrics.cache_hits.add()
        } else {
            self.metrics.cache_misses.add()
        }
        reply
    }

    fn finish(&self, ready: &Ready, kind: MediaType, headers: &HeaderMap, answer: &Answer) -> Reply {
        let mut reply = respond(kind, headers, answer);
        if let Ready::Graph { confirmed, stale: Some(stale), .. } = ready {
            self.metrics.stale_answers.add();
            let age = Instant::now().saturating_duration_since(*confirmed);
            reply.headers_mut().insert(AGE, age.as_secs().into());
            reply.headers_mut().insert(STALE, stale.clone());
        }
        reply
    }

    fn nothing(&self, ready: &Ready) -> Reply {
        match ready {
            Ready::Nothing { reason } => reply::not_ready(reason),
            Ready::Graph { .. } => reply::not_ready("the configuration is being changed"),
        }
    }

    /// Errors of the service are logged with an id that the client is told too.
    fn log<B>(&self, request: &Request<B>, reply: &mut Reply) {
        let given = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
        let id = match given.filter(|id| id.len() <= 64) {
            Some(id) => id.to_owned(),
            None => format!("{:x}", self.requests.fetch_add(1, Ordering::Relaxed)),
        };
        let (path, status) = (request.uri().path(), reply.status().as_u16());
        tracing::warn!(request = id, path, status, "answered with an error");
        reply.headers_mut().insert(REQUEST_ID, reply::header_text(&id));
    }
}

/// The rules that concern a client, unless its owner must be asked for.
fn applying_now(live: &Live, owners: &Owners, asked: &Asked) -> Option<Vec<u32>> {
    if owners.rules.is_empty() {
        return Some(vec![]);
    }
    let id = asked.id.as_deref().unwrap_or_default();
    let asks = !id.is_empty() && owners.needs_owners() && !owners.ids.contains_key(id);
    let owner = match &live.lookup {
        Some(lookup) if asks => lookup.remembered(id)?,
        _ => Owner::None,
    };
    Some(owners.applying(id, owner.name(), &asked.channel))
}

fn respond(kind: MediaType, headers: &HeaderMap, answer: &Answer) -> Reply {
    let encodings = accept::encodings(headers);
    if !encodings.gzip && !encodings.identity {
        return not_acceptable();
    }
    let gzip = match encodings {
        Encodings { gzip: false, .. } => None,
        // Who can do without gets it as it is, until it is compressed.
        Encodings { identity: true, .. } => answer.gzip(),
        Encodings { .. } => Some(answer.compressed()),
    };
    let (tag, body) = match gzip {
        Some(gzip) => (&answer.gzip_tag, gzip),
        None => (&answer.tag, &answer.body),
    };
    let unchanged = headers.contains_key(IF_NONE_MATCH) && knows(headers, answer);
    let mut reply = Response::new(if unchanged { Full::default() } else { Full::new(body.clone()) });
    let status = if unchanged { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    // Exactly these: room for more would take the allocator's slow way.
    headers.reserve(6);
    if !unchanged {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind.as_str()));
        if gzip.is_some() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    headers.insert(ETAG, tag.clone());
    headers.insert(VARY, VARIES);
    headers.insert(CACHE_CONTROL, FRESH);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, EVERYBODY);
    reply
}

/// Whether the client has this answer, in either encoding.
fn knows(headers: &HeaderMap, answer: &Answer) -> bool {
    let lines = headers.get_all(IF_NONE_MATCH).iter().map(HeaderValue::as_bytes);
    let tags = lines.flat_map(|line| line.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    tags.map(|tag| tag.strip_prefix(b"W/").unwrap_or(tag))
        .any(|tag| tag == b"*" || tag == answer.tag.as_bytes() || tag == answer.gzip_tag.as_bytes())
}

/// What is answered to anything but a question.
fn method<B>(request: &Request<B>) -> Option<Reply> {
    match *request.method() {
        Method::GET | Method::HEAD => None,
        Method::OPTIONS => Some(reply::preflight(METHODS)),
        _ => Some(reply::method_not_allowed(METHODS)),
    }
}

fn bad_query(error: &BadQuery) -> Reply {
    reply::failure(StatusCode::BAD_REQUEST, error.kind(), error)
}

fn not_acceptable() -> Reply {
    let known = MediaType::ALL.map(MediaType::as_str).join(", ");
    reply::failure(
        StatusCode::NOT_ACCEPTABLE,
        "invalid_content_type",
        format_args!("acceptable are: {known}"),
    )
}
