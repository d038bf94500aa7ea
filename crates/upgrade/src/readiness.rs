//! Whether a release says that it is ready: asking, and asking again until it does, ends, or has had its time.
//!
//! An answer counts only for what was started by the last power-on: the program must run before and after it was given,
//! and be the same.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::program::{Invocation, Limits, Overflow, RunError, run_limited};

use crate::backend::{Error, Result};
use crate::release::{self, Probe, Words, expand, find};

/// A single question.
const ATTEMPT: Duration = Duration::from_secs(10);
/// A connection that takes longer is tried anew: while it is waited for, nobody can stop the wait.
const CONNECT: Duration = Duration::from_secs(1);
/// How often it is looked whether to stop.
const TICK: Duration = Duration::from_millis(20);
/// How long a program must go on after the answer that it is ready.
const SETTLE: Duration = Duration::from_millis(100);
const MOST_OUTPUT: usize = 64 << 10;
const LONGEST_ANSWER: usize = 300;

/// What is asked, with its words replaced.
#[derive(Debug)]
pub struct Prober {
    question: Question,
}

#[derive(Debug)]
enum Question {
    Http {
        url: String,
        client: reqwest::Client,
        runtime: tokio::runtime::Runtime,
    },
    Tcp {
        address: String,
    },
    Command(Invocation),
    /// Nothing is asked: it says so by itself.
    Told,
}

/// How what is waited for is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// Another number for each start; none while it is not running, but will be.
    pub generation: Option<u64>,
    /// It has said by itself that it is ready.
    pub ready: bool,
    /// The last that is known of it.
    pub said: String,
}

impl Prober {
    pub fn new(probe: &Probe, release: &Path, words: &Words) -> Result<Self> {
        let question = match probe {
            Probe::Http { url } => {
                let url = expand(url, words)?;
                let client = client(url.starts_with("https:")).map_err(cannot_ask)?;
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                Question::Http {
                    url,
                    client,
                    runtime: runtime.map_err(|error| cannot_ask(error.to_string()))?,
                }
            }
            Probe::Tcp { address } => Question::Tcp { address: expand(address, words)? },
            Probe::Command { command } => {
                let command: Vec<String> =
                    command.iter().map(|word| expand(word, words)).collect::<Result<_, release::Error>>()?;
                let (program, args) =
                    command.split_first().ok_or_else(|| cannot_ask("no command".to_owned()))?;
                Question::Command(Invocation::new(find(release, program)).args(args))
            }
            Probe::Notify | Probe::Serial { .. } => Question::Told,
        };
        Ok(Self { question })
    }

    /// Whoever answers at an address may be somebody else, who keeps the program from opening it: that one ends then.
    fn let_it_settle(&self, stop: &AtomicBool) {
        if !matches!(self.question, Question::Told) {
            sleep(SETTLE, stop);
        }
    }

    /// An error is what was answered instead.
    fn ask(&self, limit: Duration, life: &Life, stop: &AtomicBool) -> Result<(), String> {
        match &self.question {
            Question::Http { url, client, runtime } => runtime.block_on(async {
                tokio::select! {
                    answer = get(client, url, limit) => answer,
                    () = stopped(stop) => Err("interrupted".to_owned()),
                }
            }),
            Question::Tcp { address } => connect(address, limit.min(CONNECT)),
            Question::Command(invocation) => execute(invocation, limit, stop),
            Question::Told if life.ready => Ok(()),
            Question::Told => Err(format!("it has not said that it is ready ({})", life.said)),
        }
    }
}

/// Asks every `interval` until the answer is yes. `life` is asked too, and its error ends the wait.
pub fn wait(
    prober: &Prober,
    timeout: Duration,
    interval: Duration,
    stop: &AtomicBool,
    life: &mut dyn FnMut() -> Result<Life>,
) -> Result<()> {
    let began = Instant::now();
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let before = life()?;
        let left = timeout.saturating_sub(began.elapsed());
        let last = match before.generation {
            None => before.said.clone(),
            Some(_) => match prober.ask(ATTEMPT.min(left.max(TICK)), &before, stop) {
                Ok(()) => {
                    prober.let_it_settle(stop);
                    if life()?.generation == before.generation {
                        return Ok(());
                    }
                    "somebody answered, but it was started again meanwhile".to_owned()
                }
                Err(answer) => answer,
            },
        };
        if began.elapsed() >= timeout {
            return Err(Error::NotReady { after: timeout, last });
        }
        sleep(interval.min(timeout.saturating_sub(began.elapsed())), stop);
    }
}

fn sleep(length: Duration, stop: &AtomicBool) {
    let until = Instant::now() + length;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(TICK.min(until.saturating_duration_since(Instant::now())));
    }
}

fn cannot_ask(why: String) -> Error {
    Error::Machine { what: "it cannot be asked whether it is ready".to_owned(), why }
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(TICK).await;
    }
}

/// Follows no redirects (the answer is what the URL answers), uses no proxy, keeps no connection: each question is put
/// to whoever listens now.
fn client(https: bool) -> Result<reqwest::Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    if https {
        let loaded = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(loaded.certs).0 == 0 {
            return Err("this system has no CA certificates".to_owned());
        }
    }
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(0)
        .user_agent(concat!("holdfast/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| deepest(&error))
}

async fn get(client: &reqwest::Client, url: &str, limit: Duration) -> Result<(), String> {
    let mut response = match client.get(url).timeout(limit).send().await {
        Ok(response) => response,
        Err(error) if error.is_timeout() => return Err("no answer".to_owned()),
        Err(error) => return Err(deepest(&error)),
    };
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = response.chunk().await.ok().flatten().unwrap_or_default();
    let said: String = String::from_utf8_lossy(&body).trim().chars().take(LONGEST_ANSWER).collect();
    Err(if said.is_empty() {
        format!("it answered {status}")
    } else {
        format!("it answered {status}: {said}")
    })
}

/// The innermost cause: what is around it repeats the address.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn connect(address: &str, limit: Duration) -> Result<(), String> {
    let addresses = address.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut last = "the name leads to no address".to_owned();
    for address in addresses {
        match std::net::TcpStream::connect_timeout(&address, limit) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

fn execute(invocation: &Invocation, limit: Duration, stop: &AtomicBool) -> Result<(), String> {
    let limits = Limits {
        timeout: Some(limit),
        max_output: MOST_OUTPUT,
        overflow: Overflow::Trim,
        stop: Some(stop),
        ..Limits::default()
    };
    match run_limited(invocation, &limits) {
        Ok(finished) if finished.status.success() => Ok(()),
        Ok(finished) => {
            let said = [finished.stderr.as_slice(), finished.stdout.as_slice()].concat();
            let said: String = String::from_utf8_lossy(&said).trim().chars().take(LONGEST_ANSWER).collect();
            Err(format!("the check's {}: {said}", finished.ending()))
        }
        Err(RunError::TimedOut { .. }) => Err("the check did not end".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
