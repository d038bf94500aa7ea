//! A reverse proxy in front of an API server: it writes down what is asked, and refuses, holds or cuts what it
//! is told to. Whoever asks is passed on as who they are.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::Method;
use tokio::sync::watch;

use super::https::{Https, Reply, Request, Work};
use super::{ApiServer, lock};

/// What 1.20 and 1.36 answer when they are overloaded: plain text, not a Status object.
pub const TOO_MANY: &str = "Too many requests, please try again later.\n";

#[derive(Debug, Clone)]
pub struct Asked {
    pub at: Instant,
    pub method: String,
    /// With the query.
    pub path: String,
    /// What was answered; none while it is on its way, and where the connection was cut.
    pub status: Option<u16>,
    pub user_agent: String,
}

impl Asked {
    /// Whether it would change something.
    pub fn writes(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The path without the query.
    pub fn resource(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    pub fn watches(&self) -> bool {
        self.path.contains("watch=true") || self.path.contains("watch=1")
    }
}

#[derive(Debug, Clone)]
pub enum Fault {
    None,
    /// 429 with `Retry-After` in seconds and a body that is no JSON.
    TooMany(u64),
    /// This status and text.
    Answer(u16, String),
    /// Passed on after a while.
    Delay(Duration),
    /// The connection ends; the API server hears nothing of it.
    Cut,
    /// The API server has done it, but the connection ends before anybody hears.
    CutAnswer,
}

type Plan = Box<dyn FnMut(&Asked) -> Fault + Send>;

struct Shared {
    upstream: String,
    http: reqwest::Client,
    log: Mutex<Vec<Asked>>,
    plan: Mutex<Plan>,
    held: watch::Sender<bool>,
    /// Now, and the most there were, of writes.
    in_flight: Mutex<(usize, usize)>,
}

pub struct Throttle {
    https: Https,
    shared: Arc<Shared>,
}

impl Throttle {
    /// Passes everything on, until told otherwise.
    pub fn start(server: &ApiServer) -> Self {
        let ca = std::fs::read(server.ca()).expect("a certificate");
        let http = super::http()
            .tls_certs_only([reqwest::Certificate::from_pem(&ca).expect("a certificate")])
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        let shared = Arc::new(Shared {
            upstream: server.url(),
            http,
            log: Mutex::default(),
            plan: Mutex::new(Box::new(|_| Fault::None)),
            held: watch::Sender::new(false),
            in_flight: Mutex::default(),
        });
        let of_handler = Arc::clone(&shared);
        let handler = move |request: Request| {
            let shared = Arc::clone(&of_handler);
            Box::pin(async move { shared.answer(request).await }) as Work
        };
        Self { https: Https::start(server.keys(), Arc::new(handler)), shared }
    }

    /// To be asked instead of the API server's; the authority is the same.
    pub fn url(&self) -> String {
        self.https.url()
    }

    /// From now on connections are refused, and those that are there end.
    pub fn down(&self) {
        self.https.down();
    }

    pub fn up(&self) {
        self.https.up();
    }

    /// What befalls each request from now on.
    pub fn plan(&self, plan: impl FnMut(&Asked) -> Fault + Send + 'static) {
        *lock(&self.shared.plan) = Box::new(plan);
    }

    pub fn heal(&self) {
        self.plan(|_| Fault::None);
    }

    /// Refuses every so-many-th write.
    pub fn refuse_every(&self, every: u64, retry_after: u64) {
        let mut number = 0;
        self.plan(move |asked| {
            number += u64::from(asked.writes());
            if asked.writes() && number % every == 0 { Fault::TooMany(retry_after) } else { Fault::None }
        });
    }

    /// Takes so many writes in a second, and refuses what comes beyond that.
    pub fn budget(&self, per_second: u32, retry_after: u64) {
        let (mut left, mut since) = (f64::from(per_second), Instant::now());
        self.plan(move |asked| {
            let gained = (asked.at - since).as_secs_f64() * f64::from(per_second);
            (left, since) = ((left + gained).min(f64::from(per_second)), asked.at);
            match asked.writes() {
                true if left < 1.0 => return Fault::TooMany(retry_after),
                true => left -= 1.0,
                false => {}
            }
            Fault::None
        });
    }

    /// Keeps every request that comes, until [`Self::release`].
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// All that was asked since the last [`Self::forget`], in order.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.log).clone()
    }

    pub fn count(&self, which: impl Fn(&Asked) -> bool) -> usize {
        lock(&self.shared.log).iter().filter(|asked| which(asked)).count()
    }

    /// Writes below a path.
    pub fn writes_to(&self, path: &str) -> usize {
        self.count(|asked| asked.writes() && asked.path.starts_with(path))
    }

    /// The most writes that were under way at once.
    pub fn most_writes_at_once(&self) -> usize {
        lock(&self.shared.in_flight).1
    }

    pub fn forget(&self) {
        lock(&self.shared.log).clear();
        lock(&self.shared.in_flight).1 = 0;
    }

    /// Waits until so many requests of a kind were asked.
    pub async fn until_asked(&self, count: usize, which: impl Fn(&Asked) -> bool) {
        for _ in 0..12_000 {
            if self.count(&which) >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} requests came, {count} were awaited", self.count(&which));
    }
}

/// Counts a write for as long as it is under way, however it ends.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn of(shared: &Arc<Shared>) -> Self {
        let mut counts = lock(&shared.in_flight);
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        drop(counts);
        Self(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.0.in_flight).0 -= 1;
    }
}

impl Shared {
    async fn answer(self: Arc<Self>, request: Request) -> Reply {
        let asked = Asked {
            at: Instant::now(),
            method: request.method.to_string(),
            path: request.path.clone(),
            status: None,
            user_agent: request
                .headers
                .get("user-agent")
                .map_or("", |value| value.to_str().unwrap_or(""))
                .to_owned(),
        };
        let at = asked.at;
        lock(&self.log).push(asked.clone());
        let _in_flight = asked.writes().then(|| InFlight::of(&self));
        let _ = self.held.subscribe().wait_for(|held| !held).await;
        let fault = lock(&self.plan)(&asked);
        let reply = match fault {
            Fault::None => self.pass(request).await,
            Fault::Delay(delay) => {
                tokio::time::sleep(delay).await;
                self.pass(request).await
            }
            Fault::TooMany(retry_after) => {
                Reply::text(429, TOO_MANY).header("retry-after", &retry_after.to_string())
            }
            Fault::Answer(status, text) => Reply::text(status, &text),
            Fault::Cut => Reply::Cut,
            Fault::CutAnswer => {
                self.pass(request).await;
                Reply::Cut
            }
        };
        if let Reply::Answer(response) = &reply {
            let mut log = lock(&self.log);
            // From the end: it is one of the last. Not by number, which `forget` would make wrong.
            if let Some(entry) = log.iter_mut().rev().find(|entry| entry.at == at && entry.path == asked.path)
            {
                entry.status = Some(response.status().as_u16());
            }
        }
        reply
    }

    async fn pass(&self, request: Request) -> Reply {
        let mut headers = request.headers;
        for name in ["host", "connection", "content-length", "transfer-encoding"] {
            headers.remove(name);
        }
        let mut passed =
            self.http.request(request.method.clone(), format!("{}{}", self.upstream, request.path));
        passed = passed.headers(headers);
        if !request.body.is_empty() || request.method == Method::POST || request.method == Method::PUT {
            passed = passed.body(request.body);
        }
        match passed.send().await {
            // As it comes, so that watches pass.
            Ok(response) => {
                let mut response =
                    hyper::Response::from(response).map(|body| body.map_err(Into::into).boxed());
                response.headers_mut().remove("connection");
                response.headers_mut().remove("transfer-encoding");
                Reply::Answer(response)
            }
            // As it would be without us: nobody there.
            Err(_) => Reply::Cut,
        }
    }
}
