//! The part's section of the configuration.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use logic::period::Period;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where `image serve` listens: the API for people, and for managers that join.
    pub listen: SocketAddr,
    /// Under which address other machines reach this one's managers; that of `listen`, unless given.
    pub address: Option<IpAddr>,
    /// The store of `image serve`; certificates and tokens lie beside it.
    pub state: PathBuf,
    /// The disks of this machine.
    pub disks: Vec<PathBuf>,
    /// What this machine is called; its host name, unless given.
    pub node: Option<String>,
    /// Where /livez, /readyz and /metrics are; nowhere, unless given.
    pub admin: Option<SocketAddr>,
    /// An image that nothing has used on a disk for this long is removed from it, unless it is the last verified copy.
    /// Zero: never.
    pub backing_image_cleanup_wait_interval: Period,
    /// The program that managers run: this one, unless given. Managers that run another one hand over to it.
    pub default_backing_image_manager_image: Option<PathBuf>,
    /// After this long without a word from a manager, what it had is unknown.
    pub manager_timeout: Period,
    pub manager: ManagerSettings,
    pub origin: OriginSettings,
}

/// What one manager may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ManagerSettings {
    /// Bytes a second to send, to other managers and in exports and backups together, and as many to receive, from origins,
    /// other managers and uploads together; zero: no limit.
    pub bandwidth: u64,
    /// Bytes that are on their way through memory at once, over all images.
    pub memory: u64,
    /// Connections to and from other managers, each way.
    pub connections: usize,
    /// Bytes that stay free on the disk.
    pub disk_reserve: u64,
    /// Sends of one image at once; others wait, or are served by others.
    pub sends_per_image: usize,
    /// How often files are looked at.
    pub check_interval: Period,
    /// How often every byte of every image is verified again; zero: never.
    pub scrub_interval: Period,
    /// A peer that sends nothing for this long is left alone for a while.
    pub peer_timeout: Period,
}

/// Where images may come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OriginSettings {
    /// Of `https`, `http`, `file` and `oci`.
    pub schemes: Vec<String>,
    /// Hosts, as `example.com`, `*.example.com` or `example.com:8443`; all, if empty.
    pub hosts: Vec<String>,
    /// Addresses on this machine or its links are refused, unless this says otherwise.
    pub allow_private_hosts: Vec<String>,
    /// Directories that `file` addresses may name, like that of a stick.
    pub directories: Vec<PathBuf>,
    pub redirects: usize,
    /// PEM, trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// `http://HOST:PORT`. Names are looked up by the proxy then, so that what they stand for is its concern.
    pub proxy: Option<String>,
    /// An origin that sends nothing for this long is asked again, from where it stopped.
    pub stall_timeout: Period,
    /// How often it is asked again without a byte in between.
    pub tries: u32,
    /// No image is larger.
    pub largest: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            address: None,
            state: PathBuf::from("/var/lib/holdfast/images/state.redb"),
            disks: Vec::new(),
            node: None,
            admin: None,
            backing_image_cleanup_wait_interval: Period::seconds(3600),
            default_backing_image_manager_image: None,
            manager_timeout: Period::seconds(15),
            manager: ManagerSettings::default(),
            origin: OriginSettings::default(),
        }
    }
}

impl Default for ManagerSettings {
    fn default() -> Self {
        Self {
            bandwidth: 0,
            memory: 32 << 20,
            connections: 64,
            disk_reserve: 256 << 20,
            sends_per_image: 3,
            check_interval: Period::seconds(10),
            scrub_interval: Period::seconds(7 * 86_400),
            peer_timeout: Period::seconds(10),
        }
    }
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self {
            schemes: ["https", "http", "file", "oci"].map(str::to_owned).to_vec(),
            hosts: Vec::new(),
            allow_private_hosts: Vec::new(),
            directories: Vec::new(),
            redirects: 5,
            ca_file: None,
            proxy: None,
            stall_timeout: Period::seconds(10),
            tries: 5,
            largest: 256 << 30,
        }
    }
}

impl Settings {
    /// What managers of this machine listen on; none where other machines could not reach it.
    pub fn manager_address(&self) -> Option<IpAddr> {
        self.address.or(Some(self.listen.ip()).filter(|ip| !ip.is_unspecified()))
    }
}
