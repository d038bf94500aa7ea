//! Why an origin gives nothing, each with the way out.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use oci::FetchError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    #[error("{text:?} can't be used as an address: {why}")]
    Address { text: String, why: String },
    #[error("addresses that begin with {scheme}: are not allowed here")]
    Scheme { scheme: String },
    #[error("{host} is not among the hosts that images may come from")]
    Host { host: String },
    #[error("{host} is {address}, an address of this machine or its links")]
    Local { host: String, address: IpAddr },
    #[error("{} is in none of the directories that images may come from", .path.display())]
    Directory { path: PathBuf },
    #[error("{host} leads on and on: more than {limit} redirections")]
    Redirects { host: String, limit: usize },
    #[error("{from} leads from https to http")]
    Downgrade { from: String },
    #[error("{host} can't be found")]
    Lookup { host: String, source: io::Error },
    #[error("{address} can't be reached")]
    Request { address: String, source: reqwest::Error },
    #[error("{address} answers with status {status}")]
    Status { address: String, status: u16, retry_after: Option<Duration> },
    #[error("{address} sent nothing for {} s", after.as_secs_f32())]
    Stalled { address: String, after: Duration },
    #[error("{address} broke off after {received} bytes")]
    Broke { address: String, received: u64, source: reqwest::Error },
    #[error("{address} sends another image than before")]
    Changed { address: String },
    #[error("{address} answers with a page ({kind}), not with an image")]
    Page { address: String, kind: String },
    #[error("{address} sends the image packed ({encoding})")]
    Encoding { address: String, encoding: String },
    #[error("{address} does not say how long the image is")]
    NoLength { address: String },
    #[error("the image of {address} is larger than {limit} bytes")]
    TooLarge { address: String, limit: u64 },
    #[error("{address} makes no sense: {why}")]
    Nonsense { address: String, why: String },
    #[error("can't read {}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} holds no image {name}", .path.display())]
    NotInDirectory { path: PathBuf, name: String },
    #[error("the registry does not give the blob")]
    Registry(#[source] FetchError),
    #[error("can't set up the way to origins: {why}")]
    Client { why: String },
}

impl OriginError {
    /// Whether the same question may have another answer in a moment.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Lookup { .. } | Self::Request { .. } | Self::Stalled { .. } | Self::Broke { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 425 | 429 | 500..=599),
            Self::Registry(error) => error.is_passing(),
            Self::File { source, .. } => source.kind() == io::ErrorKind::Interrupted,
            _ => false,
        }
    }

    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Address { .. } => {
                "write https://HOST/PATH, file:///DIRECTORY/FILE, or oci://REGISTRY/REPOSITORY@sha256:…"
                    .into()
            }
            Self::Scheme { scheme } => {
                format!("add \"{scheme}\" to `images.origin.schemes`, if that is meant")
            }
            Self::Host { host } => format!("add \"{host}\" to `images.origin.hosts`, if that is meant"),
            Self::Local { host, .. } => {
                format!("add \"{host}\" to `images.origin.allow-private-hosts`, if that is meant")
            }
            Self::Directory { .. } => {
                "add the directory to `images.origin.directories`, if that is meant".into()
            }
            Self::Redirects { .. } | Self::Downgrade { .. } => "use the address that it ends at".into(),
            Self::Status { status: 404 | 410, .. } => "check the address".into(),
            Self::Status { status: 401 | 403, .. } => {
                "use an address that can be read without a password".into()
            }
            Self::Page { .. } => {
                "open the address in a browser: it may ask for a login, or say what is wrong".into()
            }
            Self::Encoding { .. } => "serve the file as it is, without Content-Encoding".into(),
            Self::NoLength { .. } => {
                "give a checksum: without it nobody can tell whether the image was cut off".into()
            }
            Self::TooLarge { .. } => "raise `images.origin.largest`, if that is meant".into(),
            Self::NotInDirectory { name, .. } => {
                format!("put the image there as {name}, {name}.qcow2, {name}.img or {name}.raw")
            }
            _ => return None,
        })
    }
}
