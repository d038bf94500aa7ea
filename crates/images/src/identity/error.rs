//! What can go wrong with certificates.

use std::path::PathBuf;

use super::BadRole;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't make {what}")]
    Make { what: &'static str, source: rcgen::Error },
    #[error("can't keep {}", path.display())]
    Keep { path: PathBuf, source: disk::Error },
    #[error("can't make the directory {}", path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("{} is there, but {missing} is not", path.display())]
    Half { path: PathBuf, missing: &'static str },
    #[error("{} is not {what}", path.display())]
    Damaged { path: PathBuf, what: &'static str },
    #[error("{} can be read by others than its owner", path.display())]
    Exposed { path: PathBuf },
    #[error("the request for a certificate can't be used")]
    Request { source: rcgen::Error },
    #[error("the certificate can't be used")]
    Certificate { source: webpki::Error },
    #[error("the certificate is not for this key")]
    OtherKey,
    #[error(transparent)]
    Role(#[from] BadRole),
    #[error("can't set up TLS")]
    Tls { source: rustls::Error },
    #[error("{0:?} is not a fingerprint: expected 64 hexadecimal digits")]
    Fingerprint(String),
}

impl Error {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Half { path, .. } | Self::Damaged { path, .. } => format!(
                "restore {} from a backup; without one, remove its directory: managers then have to join again",
                path.display()
            ),
            Self::Exposed { path } => {
                format!("if nobody else has read it: chmod 600 {}; otherwise join again", path.display())
            }
            Self::Keep { path, .. } | Self::Directory { path, .. } => {
                format!("see that {} can be written, and that there is room", path.display())
            }
            Self::Request { .. } => "send a PKCS #10 request, PEM, signed by its own key".to_owned(),
            Self::Certificate { .. } | Self::OtherKey | Self::Role(_) => {
                "join the site again with a new token: holdfast image token create".to_owned()
            }
            Self::Fingerprint(_) => "copy the whole token: hft_ID_SECRET_FINGERPRINT".to_owned(),
            Self::Make { .. } | Self::Tls { .. } => "this is a defect".to_owned(),
        }
    }
}
