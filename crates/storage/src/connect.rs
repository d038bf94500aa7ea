//! The way to a cluster: from a kubeconfig, the environment, or the pod's own account.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Request, Uri, header};
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::BoxError;
use tower::filter::FilterLayer;

use crate::error::Error;
use crate::lead::Fence;

const CONNECT: Duration = Duration::from_secs(5);
/// Longer than any API server takes for a request, 60 s unless it is told otherwise.
const ANSWER: Duration = Duration::from_secs(70);
const USER_AGENT: &str = concat!("holdfast-storage/", env!("CARGO_PKG_VERSION"));

/// How to reach one cluster.
#[derive(Clone)]
pub struct Cluster {
    config: Config,
    fence: Option<Arc<Fence>>,
}

impl Cluster {
    /// By this kubeconfig; otherwise `$KUBECONFIG`, `~/.kube/config`, or the pod's own account.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, Error> {
        // Somebody may have installed it already, and then it is the same: the tree has only one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut config = match kubeconfig {
            Some(path) => read(path).await?,
            None => Config::infer().await.map_err(|error| Error::NoCluster(Box::new(error)))?,
        };
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = None;
        config.write_timeout = Some(ANSWER);
        config.headers.push((header::USER_AGENT, HeaderValue::from_static(USER_AGENT)));
        // Whoever asks decides what to do about an answer; a retry in between would hide that the server has enough.
        config.default_retry = false;
        Ok(Self { config, fence: None })
    }

    /// For requests that are answered.
    pub fn client(&self) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.read_timeout = Some(ANSWER);
        config.reset_reader_on_write = true;
        build(config, self.fence.clone())
    }

    /// For watches, which may be silent for long.
    pub fn watching(&self) -> Result<Client, Error> {
        build(self.config.clone(), self.fence.clone())
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
        Self { config, fence: self.fence.clone() }
    }

    pub fn url(&self) -> &Uri {
        &self.config.cluster_url
    }
}

async fn read(path: &Path) -> Result<Config, Error> {
    let bad = |source| Error::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(bad)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(bad)
}

fn build(config: Config, fence: Option<Arc<Fence>>) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| Error::NoCluster(Box::new(error)))?;
    let check = move |request: Request<Body>| match &fence {
        Some(fence) if !request.method().is_safe() && !fence.is_open() => {
            Err(BoxError::from("somebody else may lead by now: nothing is written"))
        }
        _ => Ok(request),
    };
    Ok(builder.with_layer(&FilterLayer::new(check)).build())
}
