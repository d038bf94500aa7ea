//! The HTTP client of one source: its own authorities, its proxy, its time limits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::FetchError;
use crate::limits::Limits;

/// How a host is reached.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A docker `config.json`; the user's own where it is not given.
    pub credentials: Option<PathBuf>,
    /// PEM, trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Instead of what the environment says.
    pub proxy: Option<String>,
}

/// For reaching a host at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(15);
const AGENT: &str = concat!("holdfast/", env!("CARGO_PKG_VERSION"));

/// A client for `host`, the name of which is for messages only.
pub fn client(host: &str, access: &Access, limits: &Limits) -> Result<reqwest::Client, FetchError> {
    let failed = |why: String| FetchError::Access { host: host.to_owned(), why };
    let limit = limits.fetch_timeout;
    let mut builder = builder(access.ca_file.as_deref())
        .map_err(failed)?
        .connect_timeout(CONNECT_LIMIT.min(limit))
        // Between two pieces of a body; whole requests are limited where their size is known.
        .read_timeout(limit)
        .pool_max_idle_per_host(limits.fetches_at_once);
    if let Some(proxy) = &access.proxy {
        let proxy =
            reqwest::Proxy::all(proxy).map_err(|error| failed(format!("proxy {proxy:?}: {error}")))?;
        builder = builder.proxy(proxy.no_proxy(reqwest::NoProxy::from_env()));
    }
    builder.build().map_err(|error| failed(crate::error::chain(&error)))
}

/// What all clients have in common: who asks, and whom they trust.
pub fn builder(ca_file: Option<&Path>) -> Result<reqwest::ClientBuilder, String> {
    Ok(reqwest::Client::builder().user_agent(AGENT).tls_backend_preconfigured(tls(ca_file)?))
}

/// An explicit provider: two in one process would panic at the first handshake.
fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Some certificates of a system's store may be unusable, or there may be none at all, as on a device that only
    // ever talks to its own registry: then the handshake says so.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let bad = |why: String| format!("the CA file {}: {why}", path.display());
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
        let mut count = 0;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            count += 1;
        }
        if count == 0 {
            return Err(bad("it holds no certificate".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Reads a body that may be no longer than `limit`.
pub async fn body(mut response: reqwest::Response, what: &str, limit: u64) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if (bytes.len() + chunk.len()) as u64 > limit => {
                return Err(FetchError::TooLong { what: what.to_owned(), limit });
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes),
            Err(source) => return Err(FetchError::Request { what: what.to_owned(), source }),
        }
    }
}
