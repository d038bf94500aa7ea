//! What can be configured. `[graph]` in the configuration; flags of `holdfast graph` go over it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use logic::graph::Arch;
use logic::period::Period;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where clients ask.
    pub listen: SocketAddr,
    /// Where `/livez`, `/readyz` and `/metrics` are; on the same port as the clients where it is not given.
    pub admin: Option<SocketAddr>,
    /// Before `/v1/graph` and `/graph`, such as `/api/upgrades_info`.
    pub path_prefix: String,
    /// What is served: policy and all, or the whole graph for other services to chain onto.
    pub role: Role,
    /// Another graph service that is asked, with the client's own parameters, instead of building a graph here.
    pub upstream: Option<String>,
    pub sources: Vec<SourceSettings>,
    /// `DIR`, `git+URL[#BRANCH]` or `image:REF`.
    pub graph_data: Option<String>,
    /// OpenPGP keys (files); where there are any, a graph-data image must be signed by one of them.
    pub graph_data_keys: Vec<PathBuf>,
    /// Where those signatures are, as `sha256=DIGEST/signature-N`: a directory, or a URL.
    pub graph_data_signatures: Option<String>,
    /// How often sources and graph data are looked at.
    pub interval: Period,
    /// What was fetched before is kept here, so that nothing is fetched twice.
    pub cache_dir: PathBuf,
    /// Parameters that a client must send.
    pub required_parameters: Vec<String>,
    /// For clients that do not say theirs.
    pub default_arch: Option<Arch>,
    pub payload_form: PayloadForm,
    /// A directory of signatures, served under `/v1/signatures/`: `sha256=DIGEST/signature-N`.
    pub signatures_dir: Option<PathBuf>,
    pub tls: Option<TlsSettings>,
    /// Clients beyond this machine may be served without TLS, because something in front of the service has it.
    pub plain_http: bool,
    pub owners: OwnerSettings,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Each client sees its window.
    #[default]
    Policy,
    /// Everybody sees the whole graph, all channels and architectures.
    Builder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PayloadForm {
    /// The image by digest, as text.
    #[default]
    Image,
    /// `{"kind":"update.openshift.io/v0","image":…}`.
    Document,
}

/// One source. In the configuration plain text where the address says it all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceSettings {
    /// `registry:https://HOST/REPO`, `registry:http://HOST/REPO`, `oci:DIR`, or `graph:FILE-or-URL`.
    pub address: String,
    /// What payloads begin with instead of `HOST/REPO`: the name under which clients reach the images.
    #[serde(default)]
    pub payload_repository: Option<String>,
    /// A docker `config.json` with credentials; otherwise `$DOCKER_CONFIG` or `~/.docker/config.json`, if there is one.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// PEM; trusted beside the system's authorities.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Instead of `$HTTPS_PROXY` and `$HTTP_PROXY`.
    #[serde(default)]
    pub proxy: Option<String>,
    /// Only tags in which this pattern is found.
    #[serde(default)]
    pub tags: Option<String>,
    /// The path of the metadata file in release images.
    #[serde(default)]
    pub metadata_path: Option<String>,
}

impl From<String> for SourceSettings {
    fn from(address: String) -> Self {
        Self { address, ..Self::default() }
    }
}

impl Serialize for SourceSettings {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for SourceSettings {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Chosen by what is written, so that a mistake in a table is told as that.
        struct TextOrTable;

        impl<'de> serde::de::Visitor<'de> for TextOrTable {
            type Value = SourceSettings;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the address of a source, or a table with one")
            }

            fn visit_str<E: serde::de::Error>(self, address: &str) -> Result<SourceSettings, E> {
                Ok(address.to_owned().into())
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<SourceSettings, A::Error> {
                SourceSettings::deserialize(serde::de::value::MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(TextOrTable)
    }
}

impl From<&SourceSettings> for oci::Access {
    fn from(settings: &SourceSettings) -> Self {
        Self {
            credentials: settings.credentials.clone(),
            ca_file: settings.ca_file.clone(),
            proxy: settings.proxy.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsSettings {
    /// PEM, the server's first.
    pub certificates: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OwnerSettings {
    /// Who owns which id, and what holds for owners, ids and the whole fleet.
    pub file: Option<PathBuf>,
    /// Asked for the owner of an id that the file does not name; `{id}` stands for it.
    pub lookup_url: Option<String>,
    pub lookup_timeout: Period,
    pub lookup_cache: Period,
    /// Ids whose owner is remembered.
    pub lookup_cache_entries: usize,
    /// Sent with each lookup, such as an authorization.
    pub lookup_headers: BTreeMap<String, String>,
}

/// A limit on everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    pub connections: usize,
    pub request_bytes: usize,
    /// For reading a request's head, and between two requests of a connection.
    pub idle: Period,
    /// For requests that are being answered when the service is told to stop.
    pub drain: Period,
    /// Of answers that are kept ready.
    pub answer_cache_bytes: usize,
    /// For asking an upstream service while a client waits.
    pub upstream_timeout: Period,
    pub upstream_bytes: u64,
    pub metadata_bytes: u64,
    pub layer_bytes: u64,
    pub manifest_bytes: u64,
    pub releases: usize,
    pub graph_data_bytes: u64,
    pub graph_data_files: usize,
    pub fetches_at_once: usize,
    pub fetch_timeout: Period,
    pub retries: usize,
}

impl Limits {
    /// What holds for images, of releases and of graph data.
    pub fn of_images(&self) -> oci::Limits {
        oci::Limits {
            manifest_bytes: self.manifest_bytes,
            layer_bytes: self.layer_bytes,
            image_bytes: self.layer_bytes,
            tree_bytes: self.graph_data_bytes,
            tree_entries: self.graph_data_files,
            images: self.releases,
            fetches_at_once: self.fetches_at_once,
            fetch_timeout: self.fetch_timeout.get(),
            retries: self.retries,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin: None,
            path_prefix: String::new(),
            role: Role::Policy,
            upstream: None,
            sources: vec![],
            graph_data: None,
            graph_data_keys: vec![],
            graph_data_signatures: None,
            interval: Period::seconds(300),
            cache_dir: "/var/cache/holdfast/graph".into(),
            required_parameters: ["channel", "id", "version"].map(str::to_owned).to_vec(),
            default_arch: None,
            payload_form: PayloadForm::Image,
            signatures_dir: None,
            tls: None,
            plain_http: false,
            owners: OwnerSettings::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for OwnerSettings {
    fn default() -> Self {
        Self {
            file: None,
            lookup_url: None,
            lookup_timeout: Period::seconds(1),
            lookup_cache: Period::seconds(600),
            lookup_cache_entries: 100_000,
            lookup_headers: BTreeMap::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            request_bytes: 16 << 10,
            idle: Period::seconds(60),
            drain: Period::seconds(30),
            answer_cache_bytes: 64 << 20,
            upstream_timeout: Period::seconds(10),
            upstream_bytes: 64 << 20,
            metadata_bytes: 1 << 20,
            layer_bytes: 8 << 30,
            manifest_bytes: 4 << 20,
            releases: 100_000,
            graph_data_bytes: 64 << 20,
            graph_data_files: 50_000,
            fetches_at_once: 16,
            fetch_timeout: Period::seconds(60),
            retries: 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_text_or_a_table() {
        let text =
            "sources = [\"oci:/releases\", { address = \"registry:https://r.example/a\", tags = \"^4\" }]";
        let settings: Settings = toml::from_str(text).unwrap();
        let addresses: Vec<&str> = settings.sources.iter().map(|source| source.address.as_str()).collect();
        assert_eq!(addresses, ["oci:/releases", "registry:https://r.example/a"]);
        assert_eq!(settings.sources[1].tags.as_deref(), Some("^4"));
        let error = toml::from_str::<Settings>("sources = [{ address = \"oci:/x\", tag = 1 }]").unwrap_err();
        assert!(error.to_string().contains("unknown field `tag`"), "{error}");
        let written = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<Settings>(&written).unwrap().sources, settings.sources);
    }
}
