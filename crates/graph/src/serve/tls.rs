//! TLS with the certificates of the configuration.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::error::Error;
use crate::settings::TlsSettings;

/// Neither file is ever larger.
const PEM_BYTES: u64 = 1 << 20;

pub const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

pub fn acceptor(settings: &TlsSettings) -> Result<TlsAcceptor, Error> {
    let bad = |path: &Path, what, source| Error::Pem { path: path.to_owned(), what, source };
    let path = &settings.certificates;
    let certificates = CertificateDer::pem_slice_iter(&read(path)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| bad(path, "certificates", Some(source)))?;
    if certificates.is_empty() {
        return Err(bad(path, "certificates", None));
    }
    let path = &settings.key;
    let key = PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|source| bad(path, "private key", Some(source)))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder
        .map_err(Error::Tls)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(Error::Tls)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > PEM_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), limit: PEM_BYTES });
    }
    std::fs::read(path).map_err(failed)
}
