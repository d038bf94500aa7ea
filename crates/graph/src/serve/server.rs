//! The service as a whole: its listeners, its stop, and the change of its configuration while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use logic::graph::GraphData;
use service::{notify, reloading};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Notify, watch};

use super::connection::{self, Phase};
use super::error::Error;
use super::metrics::Metrics;
use super::owners::stamp;
use super::ready::{self, Ready};
use super::routes::Door;
use super::site::{Live, Site};
use crate::current::{Current, State};
use crate::settings::Settings;
use crate::source::counters::ScrapeCounters;

/// Connections for liveness, readiness and metrics, apart from those of clients so that these can't take them all.
const ADMIN_CONNECTIONS: usize = 128;
/// How often files of the configuration are looked at for changes.
const FILES_LOOKED_AT: Duration = Duration::from_secs(2);
/// After a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A service that listens already.
pub struct Service {
    site: Arc<Site>,
    clients: TcpListener,
    admin: Option<TcpListener>,
}

/// For whoever steers a service that runs.
#[derive(Clone)]
pub struct Handle {
    site: Arc<Site>,
}

impl Service {
    pub async fn bind(settings: Settings, current: Current) -> Result<Self, Error> {
        let live = Live::new(settings, None)?;
        let (listen, admin) = (live.settings.listen, live.settings.admin);
        let reason = match &*current.load() {
            State::Nothing { reason } => reason.clone(),
            State::Graph { .. } => "the graph is being written".to_owned(),
        };
        let site = Arc::new(Site {
            current,
            live: ArcSwap::from_pointee(live),
            ready: ArcSwap::from_pointee(Ready::Nothing { reason }),
            data: ArcSwap::default(),
            metrics: Metrics::default(),
            refreshing: Mutex::new(()),
            reloading: Mutex::new(()),
            stopping: AtomicBool::new(false),
            requests: AtomicU64::new(1),
        });
        let admin = match admin {
            Some(address) => Some(listener(address).await?),
            None => None,
        };
        Ok(Self { site, clients: listener(listen).await?, admin })
    }

    pub fn handle(&self) -> Handle {
        Handle { site: Arc::clone(&self.site) }
    }

    /// Where clients ask: the port is known even where it was left to the system.
    pub fn address(&self) -> Result<SocketAddr, std::io::Error> {
        self.clients.local_addr()
    }

    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves until `stop` is done, then answers what was asked, within the time for that.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { site, clients, admin } = self;
        ready::refresh(&site).await;
        let follower = tokio::spawn(follow(Arc::clone(&site)));
        let keeper = tokio::spawn(watch_files(Handle { site: Arc::clone(&site) }));
        let (phase, watched) = watch::channel(Phase::Serving);
        let doors = match admin {
            Some(admin) => vec![(clients, Door::Clients), (admin, Door::Admin)],
            None => vec![(clients, Door::Both)],
        };
        let gates: Vec<Arc<Gate>> = doors.iter().map(|_| Arc::default()).collect();
        let accepting: Vec<_> = doors
            .into_iter()
            .zip(&gates)
            .map(|((listener, door), gate)| {
                let (site, gate) = (Arc::clone(&site), Arc::clone(gate));
                tokio::spawn(accept(site, listener, door, gate, watched.clone()))
            })
            .collect();
        notify("READY=1");
        stop.await;
        notify("STOPPING=1");
        site.stopping.store(true, Ordering::Relaxed);
        // Whoever waits to be accepted is refused; systemd or a load balancer has somebody else for them.
        accepting.iter().for_each(tokio::task::JoinHandle::abort);
        let _ = phase.send(Phase::Draining);
        let drain = site.live.load().settings.limits.drain.get();
        let drained = async {
            for gate in &gates {
                gate.empty().await;
            }
        };
        if tokio::time::timeout(drain, drained).await.is_err() {
            let left: usize = gates.iter().map(|gate| gate.open.load(Ordering::Relaxed)).sum();
            tracing::warn!(left, "connections are cut off: the time for them is over");
        }
        let _ = phase.send(Phase::Closed);
        follower.abort();
        keeper.abort();
    }
}

impl Handle {
    /// Takes over a configuration, or leaves everything as it is. When this returns, it is in force.
    pub async fn reload(&self, settings: Settings) -> Result<(), Error> {
        let _one_at_a_time = self.site.reloading.lock().await;
        reloading();
        let taken = self.take_over(settings).await;
        match &taken {
            Ok(()) => self.site.metrics.reloads.add(),
            Err(_) => self.site.metrics.reload_failures.add(),
        }
        notify("READY=1");
        taken
    }

    async fn take_over(&self, settings: Settings) -> Result<(), Error> {
        let before = self.site.live.load_full();
        if settings.listen != before.settings.listen {
            return Err(Error::Fixed("listen"));
        }
        if settings.admin != before.settings.admin {
            return Err(Error::Fixed("admin"));
        }
        let live = Live::new(settings, Some(&before))?;
        self.site.live.store(Arc::new(live));
        ready::refresh(&self.site).await;
        Ok(())
    }

    /// Graph data of this service's own, for what an upstream service answers.
    pub fn set_graph_data(&self, data: GraphData) {
        self.site.data.store(Arc::new(data));
        if let Some(upstream) = &self.site.live.load().upstream {
            upstream.forget();
        }
    }

    /// Shown under `/metrics`.
    pub fn set_scrape_counters(&self, sources: Vec<(String, Arc<ScrapeCounters>)>) {
        self.site.metrics.sources.store(Arc::new(sources));
    }

    /// What is served is what `Current` holds.
    pub async fn refreshed(&self) {
        ready::refresh(&self.site).await;
    }

    pub fn settings(&self) -> Settings {
        self.site.live.load().settings.clone()
    }
}

async fn listener(address: SocketAddr) -> Result<TcpListener, Error> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// How many connections are open, and a way to wait for fewer.
#[derive(Default)]
struct Gate {
    open: AtomicUsize,
    freed: Notify,
}

impl Gate {
    async fn below(&self, limit: impl Fn() -> usize) {
        while self.open.load(Ordering::Acquire) >= limit().max(1) {
            self.freed.notified().await;
        }
    }

    async fn empty(&self) {
        self.below(|| 1).await;
    }
}

/// Counts a connection for as long as it exists.
struct Open {
    gate: Arc<Gate>,
    site: Arc<Site>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.site.metrics.connections.take();
        self.gate.open.fetch_sub(1, Ordering::Release);
        self.gate.freed.notify_one();
    }
}

async fn accept(
    site: Arc<Site>,
    listener: TcpListener,
    door: Door,
    gate: Arc<Gate>,
    phase: watch::Receiver<Phase>,
) {
    let limit = || match door {
        Door::Admin => ADMIN_CONNECTIONS,
        Door::Clients | Door::Both => site.live.load().settings.limits.connections,
    };
    loop {
        gate.below(limit).await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(cause = %error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        gate.open.fetch_add(1, Ordering::AcqRel);
        site.metrics.connections.add();
        site.metrics.connections_accepted.add();
        let open = Open { gate: Arc::clone(&gate), site: Arc::clone(&site) };
        let serving = connection::serve(Arc::clone(&site), door, stream, phase.clone());
        tokio::spawn(async move {
            serving.await;
            drop(open);
        });
    }
}

/// Puts every new graph into service.
async fn follow(site: Arc<Site>) {
    let mut changes = site.current.changes();
    loop {
        ready::refresh(&site).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Takes over owners and certificates when their files change.
async fn watch_files(handle: Handle) {
    let files = |settings: &Settings| -> Vec<PathBuf> {
        let tls = settings.tls.iter().flat_map(|tls| [tls.certificates.clone(), tls.key.clone()]);
        settings.owners.file.iter().cloned().chain(tls).collect()
    };
    let look = |handle: &Handle| {
        let files = files(&handle.settings());
        files.into_iter().map(|file| (stamp(&file), file)).collect::<Vec<_>>()
    };
    let mut seen = look(&handle);
    loop {
        tokio::time::sleep(FILES_LOOKED_AT).await;
        let now = look(&handle);
        if now == seen {
            continue;
        }
        seen = now;
        if let Err(error) = handle.reload(handle.settings()).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "a changed file can't be used; what was read before stays in force");
        }
    }
}
