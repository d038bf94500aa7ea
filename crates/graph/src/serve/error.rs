//! What keeps the service from starting, or from taking over a new configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("can't listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("clients beyond this machine would be served without TLS on {address}")]
    PlainBeyondLoopback { address: SocketAddr },
    #[error("can't read {}", .path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than {limit} bytes", .path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{} is not a file of owners and overrides", .path.display())]
    Owners { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{} holds no {what}", .path.display())]
    Pem { path: PathBuf, what: &'static str, source: Option<rustls::pki_types::pem::Error> },
    #[error("the certificate and the key can't be used")]
    Tls(#[source] rustls::Error),
    #[error("{what} is not an address that can be asked: {address:?}")]
    Address { what: &'static str, address: String, source: Option<Box<reqwest::Error>> },
    #[error("the header {name:?} for owner lookups is not one")]
    Header { name: String },
    #[error("the HTTP client can't be set up")]
    Client(#[source] Box<reqwest::Error>),
    #[error("the path prefix {0:?} must begin with a slash and must not end with one")]
    Prefix(String),
    #[error("a setting can't be changed while the service runs: {0}")]
    Fixed(&'static str),
}

impl Error {
    /// The next thing to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Listen { address, .. } => {
                format!("see what listens there: ss -ltnp 'sport = :{}'", address.port())
            }
            Self::PlainBeyondLoopback { .. } => "set tls.certificates and tls.key; or plain-http = true, if \
                                                 something in front of the service speaks TLS"
                .to_owned(),
            Self::Read { path, .. } | Self::TooLarge { path, .. } => format!("ls -l {}", path.display()),
            Self::Owners { path, .. } => format!("correct {} and reload", path.display()),
            Self::Pem { path, .. } => format!("look at it: openssl storeutl -noout -text {}", path.display()),
            Self::Tls(_) => "check that tls.key belongs to the first of tls.certificates".to_owned(),
            Self::Address { .. } => "write it as https://HOST[:PORT]/PATH".to_owned(),
            Self::Header { .. } => "correct owners.lookup-headers".to_owned(),
            Self::Client(_) => "check the system's certificate authorities".to_owned(),
            Self::Prefix(_) => "write it as /api/upgrades_info".to_owned(),
            Self::Fixed(_) => "restart the service".to_owned(),
        }
    }
}
