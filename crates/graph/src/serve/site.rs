//! All that requests need: the configuration in force and what was made of it, the graph in force, the counters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;
use logic::graph::{GraphData, Owners};
use tokio::sync::Mutex;
use tokio_rustls::TlsAcceptor;

use super::error::Error;
use super::metrics::Metrics;
use super::owners::{self, Lookup};
use super::ready::Ready;
use super::tls;
use super::upstream::Upstream;
use crate::current::Current;
use crate::settings::Settings;

pub struct Site {
    pub current: Current,
    pub live: ArcSwap<Live>,
    pub ready: ArcSwap<Ready>,
    /// Own graph data, for what upstream answers.
    pub data: ArcSwap<GraphData>,
    pub metrics: Metrics,
    /// Held while `ready` is brought up to date, and while a configuration is taken over.
    pub refreshing: Mutex<()>,
    pub reloading: Mutex<()>,
    pub stopping: AtomicBool,
    /// For ids of requests that did not bring one.
    pub requests: AtomicU64,
}

/// A configuration, and what was made of it.
pub struct Live {
    pub settings: Settings,
    pub owners: Arc<Owners>,
    pub lookup: Option<Arc<Lookup>>,
    pub upstream: Option<Arc<Upstream>>,
    pub tls: Option<TlsAcceptor>,
    pub paths: Paths,
}

pub struct Paths {
    pub graphs: [String; 2],
    pub openapi: String,
    pub signatures: String,
    pub document: String,
}

/// The description of the service, for prefixes to be put into.
const OPENAPI: &str = include_str!("openapi.json");

impl Live {
    /// Reads all files that the settings name. What was remembered before is kept where its settings did not change.
    pub fn new(settings: Settings, before: Option<&Self>) -> Result<Self, Error> {
        let prefix = &settings.path_prefix;
        let fits = prefix.is_empty() || (prefix.starts_with('/') && !prefix.ends_with('/'));
        if !fits || prefix.contains(['"', '\\', '?', '#']) || prefix.chars().any(char::is_control) {
            return Err(Error::Prefix(prefix.clone()));
        }
        encrypted_beyond_loopback(&settings, settings.listen)?;
        let same_lookup = before.filter(|before| before.settings.owners == settings.owners);
        let lookup = match same_lookup {
            Some(before) => before.lookup.clone(),
            None => Lookup::new(&settings.owners)?.map(Arc::new),
        };
        let owners = Arc::new(owners::read(&settings.owners)?);
        let same_upstream = before.filter(|before| before.settings == settings && *before.owners == *owners);
        let upstream = match same_upstream {
            Some(before) => before.upstream.clone(),
            None => Upstream::new(&settings)?.map(Arc::new),
        };
        // The same rules are the same ones: answers are kept by their positions.
        let owners = match before {
            Some(before) if *before.owners == *owners => Arc::clone(&before.owners),
            _ => owners,
        };
        let server = if prefix.is_empty() { "/" } else { prefix };
        Ok(Self {
            owners,
            lookup,
            upstream,
            tls: settings.tls.as_ref().map(tls::acceptor).transpose()?,
            paths: Paths {
                graphs: [format!("{prefix}/v1/graph"), format!("{prefix}/graph")],
                openapi: format!("{prefix}/v1/openapi"),
                signatures: format!("{prefix}/v1/signatures/"),
                document: OPENAPI.replace("\"url\": \"/\"", &format!("\"url\": \"{server}\"")),
            },
            settings,
        })
    }
}

/// A graph decides what a device installs, so nobody on the way may change it. Within one machine there is no way.
fn encrypted_beyond_loopback(settings: &Settings, address: SocketAddr) -> Result<(), Error> {
    let safe = settings.tls.is_some() || settings.plain_http || address.ip().is_loopback();
    if safe { Ok(()) } else { Err(Error::PlainBeyondLoopback { address }) }
}
