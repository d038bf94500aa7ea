//! The way to a cluster: from a kubeconfig, the environment, or the pod's own account.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body::{Frame, SizeHint};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

use crate::credential::Credential;
use crate::lead::Fence;

type Source = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("there is no way to a cluster")]
    NoCluster(#[source] Source),
    #[error("can't read {}", path.display())]
    Kubeconfig { path: PathBuf, source: Source },
}

impl ConnectError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoCluster(_) => "give --kubeconfig FILE, or set KUBECONFIG",
            Self::Kubeconfig { .. } => "check the path; `kubectl --kubeconfig FILE version` tries the same",
        }
    }
}

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than any API server takes for a request, 60 s unless it is told otherwise.
const ANSWER: Duration = Duration::from_secs(70);
const USER_AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"));

/// How to reach one cluster.
#[derive(Clone)]
pub struct Cluster {
    config: Config,
    credential: Credential,
    fence: Option<Arc<Fence>>,
}

impl Cluster {
    /// By this kubeconfig; otherwise `$KUBECONFIG`, `~/.kube/config`, or the pod's own account.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ConnectError> {
        // Somebody may have installed it already, and then it is the same: the tree has only one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = match kubeconfig {
            Some(path) => read(path).await?,
            None => Config::infer().await.map_err(|error| ConnectError::NoCluster(Box::new(error)))?,
        };
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = None;
        config.write_timeout = Some(ANSWER);
        config.headers.push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
        // Whoever asks decides what to do about an answer; a retry in between would hide that the server has enough.
        config.default_retry = false;
        let credential = Credential::of(&config.auth_info, kubeconfig);
        Ok(Self { config, credential, fence: None })
    }

    /// For requests that are answered.
    pub fn client(&self) -> Result<Client, ConnectError> {
        let mut config = self.config.clone();
        config.read_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        build(&config, self.fence.clone())
    }

    /// For watches, which may be silent for long.
    pub fn watching(&self) -> Result<Client, ConnectError> {
        build(&self.config, self.fence.clone())
    }

    /// The same, but nothing is written any more once `fence` is closed, whatever is under way.
    pub fn fenced(&self, fence: Arc<Fence>) -> Self {
        Self { fence: Some(fence), ..self.clone() }
    }

    /// One API server of it. `name` is what its certificate is for, unless the kubeconfig says so.
    pub fn at(&self, url: Uri, name: Option<&str>) -> Self {
        let mut config = self.config.clone();
        config.cluster_url = url;
        config.tls_server_name = config.tls_server_name.or(name.map(str::to_owned));
        Self { config, ..self.clone() }
    }

    pub fn url(&self) -> &Uri {
        &self.config.cluster_url
    }

    pub fn credential(&self) -> &Credential {
        &self.credential
    }
}

async fn read(path: &Path) -> Result<Config, ConnectError> {
    let bad = |source| ConnectError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(bad)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(bad)
}

/// Put together here, and not by the library, so that the fence is the last thing before the connection; and because what
/// a server answers is for whoever asked to log.
fn build(config: &Config, fence: Option<Arc<Fence>>) -> Result<Client, ConnectError> {
    let bad = |error| ConnectError::NoCluster(Box::new(error));
    if config.proxy_url.is_some() {
        return Err(ConnectError::NoCluster(
            "the kubeconfig asks for a proxy, which is not supported".into(),
        ));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp).map_err(bad)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = hyper_util::client::legacy::Builder::new(TokioExecutor::new()).build(connector);
    let guard = move |request: Request<Body>| {
        let fence = fence.clone().filter(|_| !request.method().is_safe());
        request.map(|body| Guarded { body, fence })
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(bad)?)
        .layer(config.extra_headers_layer().map_err(bad)?)
        .map_request(guard)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// The body of a request. One that writes may have waited for its connection, and the process may have stood still
/// meanwhile: so the fence is looked at when the body is sent. Without its body, a write is none.
struct Guarded {
    body: Body,
    /// None for what only reads.
    fence: Option<Arc<Fence>>,
}

impl http_body::Body for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(Err(closed)) = self.fence.as_ref().map(|fence| fence.check()) {
            return Poll::Ready(Some(Err(closed.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
