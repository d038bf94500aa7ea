//! `release.json`: version, payload by backend, readiness. Its migrations are the executables in `migrations/`.

use std::path::Path;

use logic::period::Period;
use logic::upgrade::ReleaseVersion;
use serde::{Deserialize, Serialize};

use super::error::Error;

pub const FILE: &str = "release.json";
pub const MIGRATIONS: &str = "migrations";
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub api_version: ApiVersion,
    pub kind: ReleaseKind,
    pub version: ReleaseVersion,
    #[serde(default)]
    pub data_versions: DataVersions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotPayload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<VmPayload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ostree: Option<OstreePayload>,
    pub readiness: Readiness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApiVersion {
    #[serde(rename = "holdfast/v1")]
    V1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleaseKind {
    Release,
}

/// The versions that the program reads and writes. Where they are not given: the newest that a migration leads to, or 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DataVersions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub appliance: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<u32>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlotPayload {
    /// Words may hold `{release}`, `{data}`, `{run}`, `{config.KEY}`. A relative program is one of the release.
    pub command: Vec<String>,
    #[serde(default)]
    pub environment: std::collections::BTreeMap<String, String>,
    /// Between SIGTERM and SIGKILL.
    #[serde(default = "stop_timeout")]
    pub stop_timeout: Period,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Kubernetes>,
}

/// The Kubernetes that the data of an appliance is of: how its etcd and its API server are started alone, for every object
/// to be stored anew by them before the release itself starts. Words and programs are as in [`SlotPayload::command`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Kubernetes {
    pub etcd: Vec<String>,
    pub kube_apiserver: Vec<String>,
    /// How to reach that API server. A relative path is one of the release.
    pub kubeconfig: String,
    /// For all of it.
    #[serde(default = "half_an_hour")]
    pub timeout: Period,
}

fn half_an_hour() -> Period {
    Period::seconds(1800)
}

fn stop_timeout() -> Period {
    Period::seconds(10)
}

/// A virtual machine. Paths are relative to the release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmPayload {
    pub kernel: String,
    #[serde(default)]
    pub initrd: Option<String>,
    #[serde(default)]
    pub append: String,
    #[serde(default = "vm_memory")]
    pub memory_mib: u32,
    #[serde(default = "vm_cpus")]
    pub cpus: u32,
    #[serde(default)]
    pub disk: Option<VmDisk>,
    #[serde(default)]
    pub forward: Vec<Forward>,
    #[serde(default = "stop_timeout")]
    pub stop_timeout: Period,
}

fn vm_memory() -> u32 {
    256
}

fn vm_cpus() -> u32 {
    1
}

/// The machine's own disk, made once: it holds its data across releases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmDisk {
    pub size_mib: u64,
    /// An image that it stands on: a path on this machine, which is read and never written.
    #[serde(default)]
    pub base: Option<String>,
}

/// A port of the machine on this one's loopback. `host` may hold `{config.KEY}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forward {
    pub guest: u16,
    pub host: String,
}

/// A deployment of this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OstreePayload {
    /// What `bootc switch`, `rpm-ostree rebase` or `ostree admin deploy` is given.
    pub reference: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Readiness {
    pub probe: Probe,
    /// How long it may take until the probe succeeds.
    #[serde(default = "ready_timeout")]
    pub timeout: Period,
    #[serde(default = "ready_interval")]
    pub interval: Period,
}

fn ready_timeout() -> Period {
    Period::seconds(60)
}

fn ready_interval() -> Period {
    Period::from(std::time::Duration::from_millis(100))
}

/// How a release says that it is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// A status of 200 to 299.
    Http { url: String },
    /// A connection.
    Tcp { address: String },
    /// Exit code 0. A relative program is one of the release.
    Command { command: Vec<String> },
    /// `READY=1` on the socket that `NOTIFY_SOCKET` names.
    Notify,
    /// A line that holds this text, on the serial line of a virtual machine.
    Serial { text: String },
}

impl Manifest {
    /// Everything in which a word can stand for something.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let slot = self.slot.iter().flat_map(|slot| slot.command.iter().chain(slot.environment.values()));
        let kubernetes = self.slot.iter().filter_map(|slot| slot.kubernetes.as_ref());
        let kubernetes =
            kubernetes.flat_map(|it| it.etcd.iter().chain(&it.kube_apiserver).chain([&it.kubeconfig]));
        let vm =
            self.vm.iter().flat_map(|vm| vm.forward.iter().map(|forward| &forward.host).chain([&vm.append]));
        let probe: &[String] = match &self.readiness.probe {
            Probe::Http { url: text } | Probe::Tcp { address: text } | Probe::Serial { text } => {
                std::slice::from_ref(text)
            }
            Probe::Command { command } => command,
            Probe::Notify => &[],
        };
        slot.chain(kubernetes).chain(vm).chain(probe).map(String::as_str)
    }
}

/// The manifest of a release that lies in a directory.
pub fn read(release: &Path) -> Result<Manifest, Error> {
    let path = release.join(FILE);
    let bytes = disk::durable::read_limited(&path, LIMIT)?
        .ok_or_else(|| Error::NoManifest { path: release.to_owned() })?;
    parse(&bytes).map_err(|why| Error::Manifest { path, why })
}

fn parse(bytes: &[u8]) -> Result<Manifest, String> {
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if manifest.slot.as_ref().is_some_and(|slot| slot.command.is_empty()) {
        return Err("the command of slot is empty".to_owned());
    }
    let kubernetes = manifest.slot.as_ref().and_then(|slot| slot.kubernetes.as_ref());
    if kubernetes.is_some_and(|it| it.etcd.is_empty() || it.kube_apiserver.is_empty()) {
        return Err("kubernetes has to say how both etcd and kube-apiserver are started".to_owned());
    }
    if kubernetes.is_some_and(|it| it.timeout.is_zero()) {
        return Err("the timeout of kubernetes leaves no time at all".to_owned());
    }
    if matches!(&manifest.readiness.probe, Probe::Command { command } if command.is_empty()) {
        return Err("the command of readiness is empty".to_owned());
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_manifest_is_enough() {
        let manifest = parse(
            br#"{"apiVersion": "holdfast/v1", "kind": "Release", "version": "v1.0.0-7-abc",
                 "slot": {"command": ["bin/notes", "--data", "{data}"]},
                 "readiness": {"probe": {"http": {"url": "http://127.0.0.1:{config.port}/ready"}}}}"#,
        )
        .unwrap();
        assert_eq!(manifest.version.build(), 7);
        assert_eq!(manifest.readiness.timeout, Period::seconds(60));
        assert_eq!(manifest.slot.unwrap().stop_timeout, Period::seconds(10));
    }

    #[test]
    fn what_is_not_known_is_an_error() {
        for bad in [
            r#"{}"#,
            r#"{"apiVersion": "holdfast.dev/v2", "kind": "Release", "version": "v1-7-a", "readiness": {"probe": "notify"}}"#,
            r#"{"apiVersion": "holdfast/v1", "kind": "Release", "version": "v1", "readiness": {"probe": "notify"}}"#,
            r#"{"apiVersion": "holdfast/v1", "kind": "Release", "version": "v1-7-a", "readines": {}, "readiness": {"probe": "notify"}}"#,
            r#"{"apiVersion": "holdfast/v1", "kind": "Release", "version": "v1-7-a", "slot": {"command": []}, "readiness": {"probe": "notify"}}"#,
            r#"{"apiVersion": "holdfast/v1", "kind": "Release", "version": "v1-7-a", "slot": {"command": ["a"], "kubernetes": {"etcd": ["etcd"], "kubeApiserver": [], "kubeconfig": "k"}}, "readiness": {"probe": "notify"}}"#,
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
