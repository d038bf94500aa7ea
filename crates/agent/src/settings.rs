//! The `[agent]` table of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use logic::agent::Window;
use logic::period::Period;
use serde::{Deserialize, Serialize};

use crate::cluster;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Books, wishes and the quarantine.
    pub directory: PathBuf,
    /// The appliance that is kept up to date.
    pub appliance: Option<String>,
    /// The graph service: `https://HOST`, to which `/v1/graph` is added unless it has a path.
    pub upstream: Option<String>,
    pub channel: Option<String>,
    /// Takes the newest recommended release without being asked.
    pub automatic: bool,
    /// Between two questions to the graph.
    pub period: Period,
    /// A Prometheus that knows about this machine, for risks.
    pub prometheus: Option<String>,
    /// A file with a bearer token for it.
    pub prometheus_token: Option<PathBuf>,
    /// Each is a keyring: a file of OpenPGP keys, a cosign-style public key in PEM, or a directory of such files, which is one
    /// keyring. All of them must agree, and those of the running release.
    pub keys: Vec<PathBuf>,
    /// Where OpenPGP signatures are: directories and URLs of signature stores, beside the image itself.
    pub signatures: Vec<String>,
    /// Images that nobody signed are taken. For trying things out.
    pub unsigned: bool,
    /// When updates may begin, in the machine's own time; any time, unless given.
    pub windows: Vec<Window>,
    /// Executables that are asked before an update begins.
    pub preconditions: Vec<PathBuf>,
    /// Left free, beside what an update needs.
    pub reserve: u64,
    /// Minor versions that one step may skip at most.
    pub max_skew: u64,
    /// Registries: as in `[upgrade]`.
    pub credentials: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub proxy: Option<String>,
    /// The site's image service, through which layers are brought; straight from the registry, unless given.
    pub site: Option<String>,
    /// A file with the token for it.
    pub site_token: Option<PathBuf>,
    /// This machine's own disk of the site: layers are brought to it, and copied from there.
    pub site_disk: Option<PathBuf>,
    /// `/livez`, `/readyz` and `/metrics`; nowhere, unless given.
    pub admin: Option<SocketAddr>,
    /// Where it runs in a cluster.
    pub cluster: cluster::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("/var/lib/holdfast/agent"),
            appliance: None,
            upstream: None,
            channel: None,
            automatic: false,
            period: Period::seconds(210),
            prometheus: None,
            prometheus_token: None,
            keys: vec![],
            signatures: vec![],
            unsigned: false,
            windows: vec![],
            preconditions: vec![
                PathBuf::from("/usr/lib/holdfast/preconditions.d"),
                PathBuf::from("/etc/holdfast/preconditions.d"),
            ],
            reserve: 64 << 20,
            max_skew: 1,
            credentials: None,
            ca_file: None,
            proxy: None,
            site: None,
            site_token: None,
            site_disk: None,
            admin: None,
            cluster: cluster::Settings::default(),
        }
    }
}
