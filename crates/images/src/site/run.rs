//! The site as a whole: opened, served, changed while it runs, and stopped.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::StatusCode;
use logic::images::{NodeName, Process, Rules, Site};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::error::{Error, Result};
use super::program::default_program;
use super::retry::Retries;
use super::state::{Shared, View, fresh_report};
use super::{children, disks, metrics, pass, rest, serve, tokens};
use crate::dial::Dialler;
use crate::identity::{Authority, Clients, Identity, Role, server_config};
use crate::settings::Settings;

/// The site is looked at this often even if nothing says that something changed.
const TICK: Duration = Duration::from_secs(1);
/// Changes that come together are looked at together.
const GATHER: Duration = Duration::from_millis(20);
const PROBES: Duration = Duration::from_secs(3);
const RENEWALS: Duration = Duration::from_secs(3600);
/// Until the state is free after the service was stopped.
const FREED: Duration = Duration::from_secs(2);

pub struct Options {
    pub settings: Settings,
    /// This very program, which managers run unless the settings name another.
    pub program: PathBuf,
    pub version: String,
    /// What managers are started with before `image-manager`, such as where the configuration is.
    pub manager_arguments: Vec<OsString>,
}

/// A site that listens already.
pub struct Service {
    shared: Arc<Shared>,
    listener: TcpListener,
    admin: Option<TcpListener>,
    tls: watch::Sender<Arc<ServerConfig>>,
    program: Arc<PathBuf>,
}

/// For whoever steers a site that runs.
#[derive(Clone)]
pub struct Handle {
    /// It does not keep the state from being free.
    shared: Weak<Shared>,
    program: Arc<PathBuf>,
}

impl Service {
    pub async fn bind(options: Options) -> Result<Self> {
        let Options { settings, program, version, manager_arguments } = options;
        if settings.manager_address().is_none() {
            return Err(Error::NoAddress { address: settings.listen });
        }
        let rules = rules(&settings, &program, Some(&version)).await?;
        let directory = directory(&settings.state)?;
        // Opened first: it is the lock on everything beside it.
        let store: Arc<dyn store::Store> = Arc::new(store::File::open(&settings.state)?);
        let authority = Authority::open(&directory.join("authority"))?;
        let identity = Arc::new(authority.identity(&Role::Controller, &[rules.node.to_string()])?);
        let (identity, dials_as) = watch::channel(identity);
        let tls = watch::Sender::new(Arc::new(tls(&identity.borrow())?));
        let (listen, admin) = (settings.listen, settings.admin);
        let paths = settings.disks.clone();
        let view = View {
            site: Site::default(),
            rules,
            settings,
            retries: Retries::default(),
            calling: HashSet::new(),
            said: HashMap::new(),
            connections: HashMap::new(),
            monitors: HashMap::new(),
            configured: BTreeMap::new(),
        };
        let dialler = Dialler::new(dials_as);
        let shared = Shared::new(store, view, dialler, authority, identity, directory, manager_arguments);
        let shared = Arc::new(shared);
        pass::load(&shared).await?;
        disks::take_up(&shared, &paths).await?;
        begin_reports(&shared);
        tokens::ensure_admin(&shared).await?;
        let listener = listen_on(listen).await?;
        let admin = match admin {
            Some(address) => Some(listen_on(address).await?),
            None => None,
        };
        let program = Arc::new(program);
        Ok(Self { shared, listener, admin, tls, program })
    }

    /// Where people ask: the port is known even where it was left to the system.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Where liveness, readiness and metrics are asked for.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    pub fn handle(&self) -> Handle {
        Handle { shared: Arc::downgrade(&self.shared), program: Arc::clone(&self.program) }
    }

    /// Serves until it is told to stop; its managers have ended then, and the state is free.
    pub async fn run(self, stop: CancellationToken) {
        let Self { shared, listener, admin, tls, .. } = self;
        let router = rest::router(Arc::clone(&shared));
        let tls_now = tls.subscribe();
        let serving = serve::serve(listener, tls_now, router, stop.clone());
        let admin = async {
            match admin {
                Some(listener) => {
                    let (shared, stop) = (Arc::clone(&shared), stop.clone());
                    service::admin::serve(listener, move |path: &str| pages(&shared, &stop, path)).await;
                }
                None => std::future::pending().await,
            }
        };
        let serving = async { tokio::join!(serving, looking(&shared, &stop)) };
        tokio::select! {
            _ = serving => {}
            () = admin => {}
            () = probing(&shared) => {}
            () = renewing(&shared, &tls) => {}
        }
        shared.children.stop_all().await;
        let monitors: Vec<_> = shared.view().monitors.drain().collect();
        monitors.into_iter().for_each(|(_, monitor)| monitor.task.abort());
        // Tasks that were told to end hold the state until they do; then the next service can have it.
        let deadline = tokio::time::Instant::now() + FREED;
        while Arc::strong_count(&shared) > 1 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(GATHER).await;
        }
    }
}

impl Handle {
    /// Takes over settings: the program of managers, waiting times, limits for managers started from now on.
    pub async fn reload(&self, settings: Settings) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else { return Ok(()) };
        {
            let view = shared.view();
            let before = &view.settings;
            for (same, what) in [
                (before.listen == settings.listen, "images.listen"),
                (before.state == settings.state, "images.state"),
                (before.admin == settings.admin, "images.admin"),
                (before.node == settings.node, "images.node"),
                (before.disks == settings.disks, "images.disks"),
            ] {
                if !same {
                    return Err(Error::Fixed(what));
                }
            }
        }
        let rules = rules(&settings, &self.program, None).await?;
        let mut view = shared.view();
        if view.rules.program != rules.program {
            info!(from = ?view.rules.program, to = ?rules.program, "managers run another program from now on");
        }
        view.rules = rules;
        view.settings = settings;
        drop(view);
        shared.wake.notify_one();
        Ok(())
    }
}

async fn rules(settings: &Settings, program: &Path, version: Option<&str>) -> Result<Rules> {
    let configured = settings.default_backing_image_manager_image.as_deref();
    let millis = |period: logic::period::Period| u64::try_from(period.get().as_millis()).unwrap_or(u64::MAX);
    let wait = settings.backing_image_cleanup_wait_interval;
    Ok(Rules {
        node: node(settings)?,
        program: default_program(configured, program, version).await?,
        api: (wire::API_MIN_VERSION, wire::API_VERSION),
        cleanup_after: (!wait.is_zero()).then(|| millis(wait)),
        patience: millis(settings.manager_timeout),
    })
}

fn node(settings: &Settings) -> Result<NodeName> {
    let name = match &settings.node {
        Some(name) => name.clone(),
        None => rustix::system::uname().nodename().to_string_lossy().to_lowercase(),
    };
    NodeName::parse(&name).map_err(Error::Node)
}

/// Where the state file is, and all that belongs to it; for its owner only.
fn directory(state: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let parent = match state.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent);
    made.map_err(|source| Error::Directory { path: parent.clone(), source })?;
    Ok(parent)
}

async fn listen_on(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

fn tls(identity: &Identity) -> crate::identity::Result<ServerConfig> {
    server_config(identity, Clients::Anybody, &[b"h2", b"http/1.1"])
}

/// Of the managers that are stored, nothing was heard yet: those of this machine are not started, others are given time.
fn begin_reports(shared: &Shared) {
    let mut view = shared.view();
    let view = &mut *view;
    for (name, manager) in &view.site.managers {
        let report = match view.rules.is_local(manager) {
            true => {
                let why = "it was not started yet".to_owned();
                fresh_report(Process::Ended { why, wait: false })
            }
            false => {
                let mut report = fresh_report(Process::Elsewhere);
                report.address = manager.status.address.clone();
                report
            }
        };
        view.site.reports.insert(name.clone(), report);
    }
}

/// The loop.
async fn looking(shared: &Arc<Shared>, stop: &CancellationToken) {
    loop {
        pass::pass(shared).await;
        shared.metrics.passes.add();
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.wake.notified() => tokio::time::sleep(GATHER).await,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

async fn probing(shared: &Arc<Shared>) {
    loop {
        tokio::time::sleep(PROBES).await;
        disks::probe(shared).await;
    }
}

/// Certificates of the site and of its managers here, in good time.
async fn renewing(shared: &Shared, tls_config: &watch::Sender<Arc<ServerConfig>>) {
    loop {
        tokio::time::sleep(RENEWALS).await;
        let due = shared.identity.borrow().renew_at() <= std::time::SystemTime::now();
        if due && let Err(error) = renew(shared, tls_config) {
            warn!(cause = %error, "the site's certificate can't be renewed");
        }
        let managers: Vec<_> = {
            let view = shared.view();
            view.site.managers.values().filter(|manager| view.rules.is_local(manager)).cloned().collect()
        };
        for manager in managers {
            if let Err(error) = children::renew(shared, &manager) {
                warn!(manager = %manager.metadata.name, cause = %error, "a manager's certificate can't be renewed");
            }
        }
    }
}

fn renew(shared: &Shared, tls_config: &watch::Sender<Arc<ServerConfig>>) -> crate::identity::Result<()> {
    let node = shared.view().rules.node.to_string();
    let identity = shared.authority.identity(&Role::Controller, &[node])?;
    tls_config.send_replace(Arc::new(tls(&identity)?));
    shared.identity.send_replace(Arc::new(identity));
    Ok(())
}

fn pages(shared: &Shared, stop: &CancellationToken, path: &str) -> Option<(StatusCode, String)> {
    match path {
        "/livez" => Some((StatusCode::OK, "ok\n".to_owned())),
        "/readyz" if stop.is_cancelled() => {
            Some((StatusCode::SERVICE_UNAVAILABLE, "it is being stopped\n".to_owned()))
        }
        "/readyz" => Some((StatusCode::OK, "ok\n".to_owned())),
        "/metrics" => Some((StatusCode::OK, metrics::page(shared))),
        _ => None,
    }
}
