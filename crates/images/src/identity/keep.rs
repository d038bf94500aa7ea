//! A key with its certificate, in memory and in a directory of the node. Not on the disk that the manager looks after:
//! a disk goes from node to node, and a key must not.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::authority::LIFE;
use super::error::{Error, Result};
use super::{Fingerprint, Role, tls};

/// None of these files is ever larger.
const PEM_BYTES: u64 = 64 << 10;

/// Key, certificate and authority, PEM: one file, so that none of them is ever without the others.
const FILE: &str = "identity.pem";

/// A new key, for which a certificate is asked.
#[derive(Debug)]
pub struct Request {
    key: KeyPair,
    pem: String,
}

impl Request {
    pub fn new() -> Result<Self> {
        let failed = |source| Error::Make { what: "a key", source };
        let key = KeyPair::generate().map_err(failed)?;
        let pem = CertificateParams::default().serialize_request(&key).and_then(|request| request.pem());
        Ok(Self { pem: pem.map_err(failed)?, key })
    }

    /// PKCS #10.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// With what the site answered.
    pub fn granted(self, certificate: &str, authority: &str) -> Result<Identity> {
        Identity::new(&self.key.serialize_pem(), certificate, authority)
    }
}

pub struct Identity {
    pub(super) key: PrivateKeyDer<'static>,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) authority: CertificateDer<'static>,
    role: Role,
    ends: SystemTime,
    pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.role)
    }
}

impl Identity {
    pub fn new(key: &str, certificate: &str, authority: &str) -> Result<Self> {
        let pem = format!("{}\n{}\n{}\n", key.trim_end(), certificate.trim_end(), authority.trim_end());
        Self::parse(pem, Path::new(FILE))
    }

    fn parse(pem: String, path: &Path) -> Result<Self> {
        let damaged = || Error::Damaged { path: path.to_owned(), what: "a key and two certificates, PEM" };
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| damaged())?;
        let [certificate, authority] =
            <[CertificateDer<'static>; 2]>::try_from(certificates).map_err(|_| damaged())?;
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| damaged())?;
        let signing = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|_| damaged())?;
        let of_the_certificate = webpki::EndEntityCert::try_from(&certificate)
            .map_err(|source| Error::Certificate { source })?
            .subject_public_key_info();
        if signing.public_key() != Some(of_the_certificate) {
            return Err(Error::OtherKey);
        }
        let ends = tls::ends(&certificate, &authority)?;
        let role = Role::of(&certificate)?;
        Ok(Self { key, certificate, authority, role, ends, pem })
    }

    /// None where nobody has joined yet.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        read_secret(&path)?.map(|pem| Self::parse(pem, &path)).transpose()
    }

    pub fn save(&self, dir: &Path) -> Result<()> {
        directory(dir)?;
        write(&dir.join(FILE), &self.pem)
    }

    pub fn role(&self) -> &Role {
        &self.role
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.authority)
    }

    /// When the certificate ends.
    pub fn ends(&self) -> SystemTime {
        self.ends
    }

    /// When to ask for the next certificate: with a third of its life left, there is time for a site that is away.
    pub fn renew_at(&self) -> SystemTime {
        self.ends - LIFE / 3
    }
}

pub(super) fn directory(dir: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|source| Error::Directory { path: dir.to_owned(), source })
}

/// For its owner only, whole or not at all.
pub(super) fn write(path: &Path, pem: &str) -> Result<()> {
    disk::durable::write_durably_with(path, |file| {
        use std::io::Write;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(pem.as_bytes())
    })
    .map_err(|source| Error::Keep { path: path.to_owned(), source })
}

pub(super) fn read(path: &Path) -> Result<Option<String>> {
    let bytes = disk::durable::read_limited(path, PEM_BYTES)
        .map_err(|source| Error::Keep { path: path.to_owned(), source })?;
    bytes
        .map(|bytes| {
            String::from_utf8(bytes).map_err(|_| Error::Damaged { path: path.to_owned(), what: "text" })
        })
        .transpose()
}

pub(super) fn read_secret(path: &Path) -> Result<Option<String>> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
            Err(Error::Exposed { path: path.to_owned() })
        }
        // Whatever else is wrong, reading tells.
        _ => read(path),
    }
}

/// Seconds since 1970, as certificates have it.
pub(super) fn time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}
