//! Connecting to managers: control as gRPC, chunks as a plain stream, both over TLS in which each side proves its role.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use logic::images::DiskId;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;
use wire::images::image_manager_client::ImageManagerClient;

use crate::identity::{self, ALPN_CHUNKS, ALPN_GRPC, Identity, Role, client_config};

/// For the connection and its handshake.
const CONNECT: Duration = Duration::from_secs(5);
/// A connection on which nothing comes back for this long, asked or not, is dead: that is how a frozen peer is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Of a stream of chunks.
const READ_AT_ONCE: usize = 256 << 10;
/// `List` of a thousand images is far below it; so is the largest part of an upload.
pub const LARGEST_MESSAGE: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{address:?} is not an address: expected HOST:PORT")]
    Address { address: String },
    #[error("can't connect to {address}")]
    Connect { address: String, source: std::io::Error },
    #[error("no connection to {address} within {} s", CONNECT.as_secs())]
    Timeout { address: String },
    #[error("{address} is not who it should be, or does not know us")]
    Handshake { address: String, source: std::io::Error },
    #[error(transparent)]
    Identity(#[from] identity::Error),
}

impl Error {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Address { .. } => "give it as HOST:PORT".to_owned(),
            Self::Connect { .. } | Self::Timeout { .. } => {
                "see that the manager runs and that its port can be reached from here".to_owned()
            }
            Self::Handshake { .. } => {
                "see that both have certificates of the same site, that clocks are right, and that the disk was not exchanged"
                    .to_owned()
            }
            Self::Identity(error) => error.hint(),
        }
    }
}

/// Dials as this identity; as its next one, once it is renewed.
#[derive(Debug, Clone)]
pub struct Dialler {
    identity: watch::Receiver<Arc<Identity>>,
}

impl Dialler {
    pub fn new(identity: watch::Receiver<Arc<Identity>>) -> Self {
        Self { identity }
    }

    fn tls(&self, disk: &DiskId, alpn: &[u8]) -> Result<Arc<ClientConfig>, Error> {
        let identity = Arc::clone(&self.identity.borrow());
        Ok(Arc::new(client_config(&identity, &Role::Manager(disk.clone()), &[alpn])?))
    }

    /// Calls to the manager of a disk. The connection is made by the first call, and again when it broke.
    pub fn calls(&self, disk: &DiskId, address: &str) -> Result<ImageManagerClient<Channel>, Error> {
        let bad = || Error::Address { address: address.chars().take(100).collect() };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| bad())?;
        let endpoint = endpoint
            .connect_timeout(CONNECT * 2)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let (dialler, disk, address) = (self.clone(), disk.clone(), address.to_owned());
        let channel = endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
            let (dialler, disk, address) = (dialler.clone(), disk.clone(), address.clone());
            async move { dialler.connect(&disk, &address, ALPN_GRPC).await.map(TokioIo::new) }
        }));
        Ok(ImageManagerClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE))
    }

    /// A connection for chunks. What is said on it is the transfer's matter.
    pub async fn chunks(
        &self,
        disk: &DiskId,
        address: &str,
    ) -> Result<TlsStream<BufReader<TcpStream>>, Error> {
        let tls = self.tls(disk, ALPN_CHUNKS)?;
        // Left to itself, rustls reads 4 KiB at a time: half as much again of processor time.
        tls_connect(tls, address, |stream| BufReader::with_capacity(READ_AT_ONCE, stream)).await
    }

    async fn connect(
        &self,
        disk: &DiskId,
        address: &str,
        alpn: &[u8],
    ) -> Result<TlsStream<TcpStream>, Error> {
        let tls = self.tls(disk, alpn)?;
        tls_connect(tls, address, |stream| stream).await
    }
}

async fn tls_connect<S: AsyncRead + AsyncWrite + Unpin>(
    tls: Arc<ClientConfig>,
    address: &str,
    wrap: impl FnOnce(TcpStream) -> S,
) -> Result<TlsStream<S>, Error> {
    let named = || address.chars().take(100).collect::<String>();
    let connecting = async {
        let stream = TcpStream::connect(address)
            .await
            .map_err(|source| Error::Connect { address: named(), source })?;
        // Requests are small and waited for.
        let _ = stream.set_nodelay(true);
        // The name is never looked at: the role is.
        let name = ServerName::try_from("manager.holdfast.invalid")
            .map_err(|_| Error::Address { address: named() })?;
        TlsConnector::from(tls)
            .connect(name, wrap(stream))
            .await
            .map_err(|source| Error::Handshake { address: named(), source })
    };
    tokio::time::timeout(CONNECT, connecting)
        .await
        .unwrap_or_else(|_| Err(Error::Timeout { address: named() }))
}
