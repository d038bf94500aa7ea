//! The site's certificate authority: its key never leaves the directory beside the site's store.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use super::error::{Error, Result};
use super::{Identity, Role, keep};

/// A certificate is good for this long; [`Identity::renew_at`] says when to ask for the next one.
pub const LIFE: Duration = Duration::from_secs(90 * DAY);
const DAY: u64 = 86_400;
/// The authority outlives the machines: whoever exchanges it has every manager join again.
const AUTHORITY_LIFE: Duration = Duration::from_secs(30 * 365 * DAY);
/// Clocks of machines that were just switched on are often behind.
const BACKDATED: Duration = Duration::from_secs(DAY);
/// No request for a certificate is longer.
const REQUEST_BYTES: usize = 16 << 10;

const CERTIFICATE: &str = "authority.pem";
const KEY: &str = "authority.key";

/// SHA-256 of the authority's certificate. It is part of every token, so that clients know whom they talk to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate.as_ref()).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // The same 64 digits as any hash here.
        let hash: logic::images::Hash =
            text.parse().map_err(|_| Error::Fingerprint(text.chars().take(80).collect()))?;
        Ok(Self(*hash.bytes()))
    }
}

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.fingerprint())
    }
}

impl Authority {
    /// The one in this directory; made, where there is none yet.
    pub fn open(dir: &Path) -> Result<Self> {
        let (certificate, key) = (dir.join(CERTIFICATE), dir.join(KEY));
        match (keep::read(&certificate)?, keep::read_secret(&key)?) {
            (Some(pem), Some(secret)) => {
                let secret = KeyPair::from_pem(&secret)
                    .map_err(|_| Error::Damaged { path: key.clone(), what: "a private key, PEM" })?;
                Self::of(pem, secret, &certificate)
            }
            // The key is written first: a certificate without it was not left behind by an interruption.
            (Some(_), None) => Err(Error::Half { path: certificate, missing: KEY }),
            (None, _) => Self::make(dir),
        }
    }

    fn make(dir: &Path) -> Result<Self> {
        let failed = |source| Error::Make { what: "the site's certificate authority", source };
        let secret = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        let id = uuid::Uuid::new_v4().simple().to_string();
        params.distinguished_name.push(DnType::CommonName, format!("holdfast site {}", &id[..8]));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let now = SystemTime::now();
        params.not_before = (now - BACKDATED).into();
        params.not_after = (now + AUTHORITY_LIFE).into();
        let pem = params.self_signed(&secret).map_err(failed)?.pem();
        keep::directory(dir)?;
        keep::write(&dir.join(KEY), &secret.serialize_pem())?;
        let certificate = dir.join(CERTIFICATE);
        keep::write(&certificate, &pem)?;
        Self::of(pem, secret, &certificate)
    }

    fn of(pem: String, secret: KeyPair, path: &Path) -> Result<Self> {
        let damaged = || Error::Damaged { path: path.to_owned(), what: "a certificate, PEM" };
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())?;
        let issuer = Issuer::from_ca_cert_der(&der, secret).map_err(|_| damaged())?;
        Ok(Self { issuer, pem, der })
    }

    /// Its certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }

    /// A certificate for the key of a request. Nothing else of the request counts: role and names are the site's choice.
    pub fn issue(&self, request: &str, role: &Role, names: &[String]) -> Result<String> {
        if request.len() > REQUEST_BYTES {
            return Err(Error::Request { source: rcgen::Error::CouldNotParseCertificationRequest });
        }
        let request =
            CertificateSigningRequestParams::from_pem(request).map_err(|source| Error::Request { source })?;
        self.sign(&request.public_key, role, names)
    }

    /// A new key and its certificate, for a part of this very process or for a child of it.
    pub fn identity(&self, role: &Role, names: &[String]) -> Result<Identity> {
        let request = super::Request::new()?;
        let certificate = self.issue(request.pem(), role, names)?;
        request.granted(&certificate, &self.pem)
    }

    fn sign(&self, key: &impl PublicKeyData, role: &Role, names: &[String]) -> Result<String> {
        let failed = |source| Error::Make { what: "a certificate", source };
        // Names and IP addresses, told apart by their looks.
        let mut params = CertificateParams::new(names).map_err(failed)?;
        let uri = role.to_string().try_into().map_err(failed)?;
        params.subject_alt_names.push(SanType::URI(uri));
        params.distinguished_name.push(DnType::CommonName, role.to_string());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let now = SystemTime::now();
        params.not_before = (now - BACKDATED).into();
        params.not_after = (now + LIFE).into();
        Ok(params.signed_by(key, &self.issuer).map_err(failed)?.pem())
    }
}
