//! TLS for checks: an explicit provider (two in one process would panic at the first handshake) and explicit
//! roots. Nothing is read from the environment.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A certificate chain and its key, both PEM.
pub(crate) struct ClientPem {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// `ca`: PEM certificates to trust instead of the system's. Errors are in words.
pub(crate) fn client_config(ca: Option<&[u8]>, client: Option<&ClientPem>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(match ca {
            Some(pem) => own_roots(pem)?,
            None => system_roots()?,
        });
    let Some(client) = client else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&client.certificate, "the client certificate")?;
    let key =
        PrivateKeyDer::from_pem_slice(&client.key).map_err(|error| format!("the client key: {error}"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("the client certificate: {error}"))
}

fn own_roots(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the CA file")? {
        roots.add(certificate).map_err(|error| format!("the CA file: {error}"))?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{what}: {error}"))?;
    if all.is_empty() { Err(format!("{what} holds no certificate")) } else { Ok(all) }
}

/// Some certificates of a system's store may be unusable; without any the check can't be made.
fn system_roots() -> Result<RootCertStore, String> {
    let loaded = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(loaded.certs);
    if usable > 0 {
        return Ok(roots);
    }
    let why = loaded.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    Err(format!("this system has no CA certificates{why}; name a file with ca = \"…\""))
}
