//! All of a manager together: from its options to its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use logic::images::{DiskId, NodeName, Program};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::Connected;
use wire::images::image_manager_server::ImageManagerServer;
use wire::site::{Register, Serving};

use super::error::Error;
use super::handover::{self, Offers};
use super::join::Join;
use super::registry::Registry;
use super::service::{Caller, Manager};
use super::work::Work;
use super::{admin, scrub, tend};
use crate::dial::{Dialler, LARGEST_MESSAGE};
use crate::file::DiskDir;
use crate::identity::{ALPN_CHUNKS, ALPN_GRPC, Clients, Identity, Role, server_config};
use crate::listen::{self, Visitor};
use crate::settings::{ManagerSettings, OriginSettings};
use crate::volume::Volumes;

/// Links are read, decrypted and written by one thread, which is enough for several Gbit/s; hashing and the disk have others. With
/// two, each wakes the other for what it could do itself: a receiver took 1.47 s per GiB instead of 1.32, and three took 3.1 transfers
/// instead of 2.4, in one try each.
const THREADS: usize = 1;
/// Reading, writing and hashing; bounded, because each has a stack.
const BLOCKING_THREADS: usize = 32;
/// Calls at once on one connection.
const CALLS: u32 = 256;
/// A connection on which nothing comes back for this long is dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// For everything to end by itself.
const STOP: Duration = Duration::from_secs(10);
/// How often the end of another manager of this disk is looked for.
const OTHER: Duration = Duration::from_millis(500);

/// Identities of managers, by their disk's uuid.
pub const IDENTITIES: &str = "/var/lib/holdfast/images/managers";

/// How often the identity is read again, where somebody else renews it.
const REREAD: Duration = Duration::from_secs(600);

/// The versions of the API that a manager says it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api {
    pub version: u32,
    pub min_version: u32,
}

impl Default for Api {
    fn default() -> Self {
        Self { version: wire::API_VERSION, min_version: wire::API_MIN_VERSION }
    }
}

#[derive(Debug, Clone)]
pub struct Options {
    pub disk: PathBuf,
    /// The disk that it must be.
    pub expected: Option<DiskId>,
    /// Make the directory a disk, if it is none.
    pub init: bool,
    pub listen: SocketAddr,
    /// Where others reach it; where it listens, unless given.
    pub advertise: Option<String>,
    /// Where key and certificate are kept, on the node; below [`IDENTITIES`], unless given.
    pub identity: Option<PathBuf>,
    /// The site that it registers with; none for children of the site's own process.
    pub join: Option<Join>,
    pub node: NodeName,
    pub program: Program,
    pub api: Api,
    pub admin: Option<SocketAddr>,
    pub settings: ManagerSettings,
    pub origin: OriginSettings,
}

/// Runs until it is cancelled or told to stop by a signal, or the site has no use for it. `serving` is called once, when calls are answered.
pub fn run(
    options: Options,
    cancelled: CancellationToken,
    serving: impl FnOnce(&Serving) + Send,
) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    let ended = runtime.block_on(serve(options, cancelled, serving));
    // Whatever still blocks is cut off: what it has not recorded does not count.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(
    mut options: Options,
    cancelled: CancellationToken,
    serving: impl FnOnce(&Serving),
) -> Result<(), Error> {
    // Others are told where it is.
    options.disk = std::path::absolute(&options.disk).unwrap_or(options.disk);
    if options.init {
        DiskDir::init(&options.disk)?;
    }
    let disk = DiskDir::open(&options.disk, options.expected.as_ref(), options.settings.disk_reserve)?;
    let identities = options.identity.clone();
    let identity_dir = identities.unwrap_or_else(|| Path::new(IDENTITIES).join(disk.id().as_str()));
    let identity = identity(&options, &identity_dir, disk.id()).await?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|source| Error::Listen { address: options.listen, source })?;
    let bound = listener.local_addr().unwrap_or(options.listen);
    let address = advertised(&options, bound);
    let identity = watch::Sender::new(Arc::new(identity));

    let work = Work::new(
        &disk,
        Dialler::new(identity.subscribe()),
        options.node.clone(),
        &options.settings,
        options.origin.clone(),
    );
    let registry = Registry::new(Arc::clone(&disk), Arc::clone(&work), cancelled.clone());
    let manager = Arc::new(Manager {
        registry: Arc::clone(&registry),
        volumes: Arc::new(Volumes::open(&options.disk)?),
        offers: Offers::default(),
        work: Arc::clone(&work),
        api: options.api,
        node: options.node.clone(),
        version: options.program.version.clone(),
        stopping: cancelled.clone(),
    });

    let first = handover::first_on(&disk);
    if first.is_some()
        && let Err(error) = registry.take_up().await
    {
        tracing::warn!(cause = %error, "what is on the disk can't be taken up");
    }

    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(tend::measure(Arc::clone(&manager)));
    tasks.spawn(tend::check(Arc::clone(&registry), options.settings.check_interval.get()));
    let scrubbing = cancelled.child_token();
    tasks.spawn(scrub::scrub(Arc::clone(&registry), options.settings.scrub_interval.get(), scrubbing));
    tasks.spawn(keep_first(first, Arc::clone(&registry)));
    let (calls, incoming) = mpsc::channel(16);
    let welcome = welcome(Arc::clone(&manager), calls);
    let tls = follow_identity(&identity)?;
    tasks.spawn(tls.1);
    let stop_listening = cancelled.clone();
    tasks.spawn(listen::accept(listener, tls.0, options.settings.connections, stop_listening, welcome));
    if let Some(address) = options.admin {
        let listener =
            TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })?;
        tasks.spawn(service::admin::serve(listener, admin::pages(Arc::clone(&manager))));
    }
    let mut answering = tokio::spawn(answer(Arc::clone(&manager), incoming, cancelled.clone()));

    let me = Register {
        disk: disk.id().clone(),
        node: options.node.clone(),
        path: disk.path().display().to_string(),
        address: address.clone(),
        api_version: options.api.version,
        api_min_version: options.api.min_version,
        program: options.program.clone(),
    };
    serving(&Serving {
        address: address.clone(),
        disk: disk.id().clone(),
        version: options.program.version.clone(),
        api_version: options.api.version,
        api_min_version: options.api.min_version,
    });
    service::notify("READY=1");
    tracing::info!(disk = %disk.id(), path = %disk.path().display(), address, images = registry.all().len(), "serving");

    let staying = async {
        match options.join {
            Some(join) => join.stay(identity_dir, me, identity.clone(), || registry.is_empty()).await,
            None => reread(&identity_dir, &identity).await,
        }
    };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = service::terminated() => cancelled.cancel(),
        () = staying => cancelled.cancel(),
    }
    service::notify("STOPPING=1");
    tracing::info!("stopping");
    let stop = async {
        work.stop();
        registry.stop().await;
        let _ = (&mut answering).await;
    };
    if tokio::time::timeout(STOP, stop).await.is_err() {
        tracing::warn!("not everything ended in time: it is cut off");
    }
    Ok(())
}

async fn identity(options: &Options, dir: &Path, disk: &DiskId) -> Result<Identity, Error> {
    if let Some(join) = &options.join {
        return join.identity(dir, disk, &options.node).await;
    }
    let identity = Identity::load(dir)?.ok_or_else(|| Error::NoIdentity { path: dir.to_owned() })?;
    if *identity.role() != Role::Manager(disk.clone()) {
        return Err(Error::OtherDisk {
            path: dir.to_owned(),
            role: identity.role().to_string(),
            disk: disk.clone(),
        });
    }
    Ok(identity)
}

/// Whoever started this process renews its certificate in place.
async fn reread(dir: &Path, identity: &watch::Sender<Arc<Identity>>) {
    loop {
        tokio::time::sleep(REREAD).await;
        match Identity::load(dir) {
            Ok(Some(next)) if next.ends() > identity.borrow().ends() => {
                tracing::info!("the certificate was renewed");
                identity.send_replace(Arc::new(next));
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(cause = %error, "the identity can't be read again"),
        }
    }
}

/// An address that others can dial: nobody can dial 0.0.0.0.
fn advertised(options: &Options, bound: SocketAddr) -> String {
    match &options.advertise {
        // Only a host was given: the port is the one that it got.
        Some(host) if host.parse::<SocketAddr>().is_err() && !host.contains(':') => {
            format!("{host}:{}", bound.port())
        }
        Some(address) => address.clone(),
        None if bound.ip().is_unspecified() => {
            // The address from which this node reaches its site is one at which the site reaches it.
            let site = options.join.as_ref().and_then(|join| join.url.strip_prefix("https://"));
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok();
            let local = socket.zip(site).and_then(|(socket, site)| {
                socket.connect(site.trim_end_matches('/')).ok()?;
                socket.local_addr().ok()
            });
            match local {
                Some(local) => SocketAddr::new(local.ip(), bound.port()).to_string(),
                None => format!("{}:{}", options.node, bound.port()),
            }
        }
        None => bound.to_string(),
    }
}

/// Once another manager of this disk has ended, what it had is taken up.
async fn keep_first(first: Option<std::fs::File>, registry: Arc<Registry>) {
    if let Some(lock) = first {
        let _lock = lock;
        return std::future::pending().await;
    }
    tracing::info!("another manager of this disk runs: waiting for what it hands over");
    loop {
        tokio::time::sleep(OTHER).await;
        let disk = Arc::clone(&registry.disk);
        let Ok(Some(lock)) = super::registry::blocking(move || handover::first_on(&disk)).await else {
            continue;
        };
        tracing::info!("the other manager of this disk has ended");
        if let Err(error) = registry.take_up().await {
            tracing::warn!(cause = %error, "what is on the disk can't be taken up");
        }
        let _lock = lock;
        return std::future::pending().await;
    }
}

type Tls = watch::Receiver<Arc<rustls::ServerConfig>>;

/// The TLS of the identity in force, and what keeps it so.
fn follow_identity(
    identity: &watch::Sender<Arc<Identity>>,
) -> Result<(Tls, impl Future<Output = ()> + use<>), Error> {
    let config = |identity: &Identity| {
        server_config(identity, Clients::Members, &[ALPN_GRPC, ALPN_CHUNKS]).map(Arc::new)
    };
    let mut identity = identity.subscribe();
    let now = config(&identity.borrow_and_update())?;
    let (sender, receiver) = watch::channel(now);
    let follow = async move {
        while identity.changed().await.is_ok() {
            let next = Arc::clone(&identity.borrow_and_update());
            match config(&next) {
                Ok(config) => drop(sender.send_replace(config)),
                Err(error) => tracing::warn!(cause = %error, "the new certificate can't be used"),
            }
        }
        std::future::pending().await
    };
    Ok((receiver, follow))
}

type Welcomed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Chunks are sent from here; calls go to the server.
fn welcome(
    manager: Arc<Manager>,
    calls: mpsc::Sender<Connection>,
) -> impl Fn(Visitor) -> Welcomed + Clone + Send + Sync + 'static {
    move |visitor| {
        let (manager, calls) = (Arc::clone(&manager), calls.clone());
        Box::pin(async move {
            if visitor.wants_chunks {
                let Role::Manager(receiver) = &visitor.role else { return };
                let receiver = receiver.clone();
                manager.work.serve(visitor, &receiver).await;
            } else {
                let _ = calls.send(Connection { visitor }).await;
            }
        })
    }
}

async fn answer(manager: Arc<Manager>, incoming: mpsc::Receiver<Connection>, cancelled: CancellationToken) {
    let connections = futures_util::stream::unfold(incoming, |mut incoming| async move {
        incoming.recv().await.map(|connection| (Ok::<_, std::io::Error>(connection), incoming))
    });
    let service = ImageManagerServer::from_arc(manager)
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
    let server = Server::builder()
        .max_concurrent_streams(Some(CALLS))
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(service);
    if let Err(error) = server.serve_with_incoming_shutdown(connections, cancelled.cancelled()).await {
        tracing::warn!(cause = %error, "calls are not answered any more");
    }
}

/// A connection for calls, which knows who calls.
#[derive(Debug)]
struct Connection {
    visitor: Visitor,
}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut TlsStream<TcpStream>> {
        Pin::new(&mut self.get_mut().visitor.stream)
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        Caller(self.visitor.role.clone())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.stream().poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.stream().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.visitor.stream.is_write_vectored()
    }
}
