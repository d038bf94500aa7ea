//! TLS between the members of a site, and from people's clients to it.
//!
//! A certificate is good if the site's authority signed it, it is in force, and its role is the one that was dialled.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
};
use webpki::KeyUsage;

use super::error::{Error, Result};
use super::{Fingerprint, Identity, Role, keep};

/// Control.
pub const ALPN_GRPC: &[u8] = b"h2";
/// Chunks, framed.
pub const ALPN_CHUNKS: &[u8] = b"holdfast-chunks/1";

/// Whom a server lets connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Members of the site, by their certificate.
    Members,
    /// Members, and people who have a token instead of a certificate.
    Anybody,
}

/// Whom a client without a certificate trusts: the site whose authority has this fingerprint.
#[derive(Debug, Clone, Copy)]
pub struct Pinned(pub Fingerprint);

/// One provider with the cheapest good cipher first: the data is verified by its own hashes anyway.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![
        ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
        ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
        ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    Arc::new(provider)
}

pub fn server_config(identity: &Identity, clients: Clients, alpn: &[&[u8]]) -> Result<ServerConfig> {
    let tls = |source| Error::Tls { source };
    let verifier = Verifier { anchor: Anchor::Certificate(identity.authority.clone()), expected: None };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls)?
        .with_client_cert_verifier(Arc::new(Admission { verifier, clients }))
        // The authority goes along: clients that pin its fingerprint do not have it.
        .with_single_cert(
            vec![identity.certificate.clone(), identity.authority.clone()],
            identity.key.clone_key(),
        )
        .map_err(tls)?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// For one member that dials another, of which it knows the role.
pub fn client_config(identity: &Identity, expected: &Role, alpn: &[&[u8]]) -> Result<ClientConfig> {
    let verifier = Verifier {
        anchor: Anchor::Certificate(identity.authority.clone()),
        expected: Some(expected.clone()),
    };
    let mut config = builder(verifier)?
        .with_client_auth_cert(vec![identity.certificate.clone()], identity.key.clone_key())
        .map_err(|source| Error::Tls { source })?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

impl Pinned {
    /// For people's clients, and for managers that join.
    pub fn client_config(self, alpn: &[&[u8]]) -> Result<ClientConfig> {
        let verifier = Verifier { anchor: Anchor::Fingerprint(self.0), expected: Some(Role::Controller) };
        let mut config = builder(verifier)?.with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }
}

fn builder(
    verifier: Verifier,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|source| Error::Tls { source })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier)))
}

/// Of a peer, after the handshake; none where it showed no certificate.
pub fn role_of(certificates: Option<&[CertificateDer<'_>]>) -> Option<Role> {
    // The handshake let nobody in with a certificate that has no role.
    certificates.and_then(<[_]>::first).and_then(|certificate| Role::of(certificate).ok())
}

/// When a certificate of this authority ends. The verifier tells, when it is asked about a time that no certificate lives to
/// see; it looks at times before signatures, so it is asked once more.
pub(super) fn ends(certificate: &CertificateDer<'_>, authority: &CertificateDer<'_>) -> Result<SystemTime> {
    let far = UnixTime::since_unix_epoch(Duration::from_secs(200_000_000_000));
    let end = match verify(certificate, authority, far, KeyUsage::client_auth()) {
        Err(webpki::Error::CertExpired { not_after, .. }) => not_after,
        Err(source) => return Err(Error::Certificate { source }),
        Ok(()) => far,
    };
    verify(certificate, authority, end, KeyUsage::client_auth())
        .map_err(|source| Error::Certificate { source })?;
    Ok(keep::time(end.as_secs()))
}

fn verify(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
    now: UnixTime,
    usage: KeyUsage,
) -> std::result::Result<(), webpki::Error> {
    let anchor = webpki::anchor_from_trusted_cert(authority)?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    // The authority signs directly: there are no certificates in between.
    webpki::EndEntityCert::try_from(certificate)?
        .verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None)
        .map(|_| ())
}

#[derive(Debug)]
enum Anchor {
    Certificate(CertificateDer<'static>),
    /// The peer sends the certificate along.
    Fingerprint(Fingerprint),
}

#[derive(Debug)]
struct Verifier {
    anchor: Anchor,
    expected: Option<Role>,
}

impl Verifier {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
        usage: KeyUsage,
    ) -> std::result::Result<(), rustls::Error> {
        let stranger = || rustls::Error::from(CertificateError::UnknownIssuer);
        let authority = match &self.anchor {
            Anchor::Certificate(authority) => authority,
            Anchor::Fingerprint(pin) => {
                others.iter().find(|other| Fingerprint::of(other) == *pin).ok_or_else(stranger)?
            }
        };
        verify(certificate, authority, now, usage).map_err(|error| match error {
            webpki::Error::CertExpired { time, not_after } => {
                CertificateError::ExpiredContext { time, not_after }.into()
            }
            webpki::Error::CertNotValidYet { time, not_before } => {
                CertificateError::NotValidYetContext { time, not_before }.into()
            }
            webpki::Error::UnknownIssuer => stranger(),
            webpki::Error::BadDer => CertificateError::BadEncoding.into(),
            other => rustls::Error::from(CertificateError::Other(rustls::OtherError(Arc::new(other)))),
        })?;
        let role = Role::of(certificate).map_err(other)?;
        match &self.expected {
            Some(expected) if *expected != role => {
                Err(other(WrongRole { expected: expected.clone(), found: role }))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected {expected}, found {found}")]
struct WrongRole {
    expected: Role,
    found: Role,
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> rustls::Error {
    CertificateError::Other(rustls::OtherError(Arc::new(error))).into()
}

fn verify_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
    let algorithms = ring::default_provider().signature_verification_algorithms;
    rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms)
}

/// Nothing older than TLS 1.3 is spoken.
fn too_old() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not spoken here".to_owned())
}

fn schemes() -> Vec<SignatureScheme> {
    ring::default_provider().signature_verification_algorithms.supported_schemes()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(certificate, others, now, KeyUsage::server_auth())?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}

/// The same check on the server's side.
#[derive(Debug)]
struct Admission {
    verifier: Verifier,
    clients: Clients,
}

impl ClientCertVerifier for Admission {
    fn client_auth_mandatory(&self) -> bool {
        self.clients == Clients::Members
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.verifier.check(certificate, others, now, KeyUsage::client_auth())?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        schemes()
    }
}
