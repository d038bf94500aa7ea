//! What manifests, indexes and image configurations say, in the forms of OCI and of Docker. Reading only: nothing is
//! fetched here.

use std::collections::BTreeMap;

use serde::Deserialize;

use trust::digest::Digest;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// What is asked for: without it, a registry may answer in a form from before digests.
pub(crate) const ACCEPTED: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];

/// More than any image has; and a limit on what one manifest can make us fetch.
const LAYERS_LIMIT: usize = 512;
const ENTRIES_LIMIT: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    Image { config: Descriptor, layers: Vec<Descriptor> },
    List(Vec<Descriptor>),
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default, deserialize_with = "null_is_none")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
}

impl Platform {
    /// Of this machine, as images name it.
    pub fn here() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "x86" => "386",
            "aarch64" => "arm64",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            "powerpc64" => "ppc64",
            other => other,
        };
        Self { architecture: architecture.to_owned(), os: "linux".to_owned() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("it is not a manifest")]
    Json(#[from] serde_json::Error),
    #[error("it is a manifest of the unknown kind {0:?}")]
    Kind(String),
    #[error("it has {count} {what}; up to {limit} are read")]
    TooMany { what: &'static str, count: usize, limit: usize },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    schema_version: u32,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

impl Manifest {
    /// The bytes decide, not the header under which they came: OCI's need not name their type, and the digest covers
    /// the bytes only.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let raw: Raw = serde_json::from_slice(bytes)?;
        let kind = raw.media_type.as_str();
        if !(kind.is_empty() || ACCEPTED.contains(&kind)) || raw.schema_version != 2 {
            let kind =
                if kind.is_empty() { format!("schema {}", raw.schema_version) } else { kind.to_owned() };
            return Err(ManifestError::Kind(kind));
        }
        let is_list = matches!(kind, OCI_INDEX | DOCKER_LIST);
        let is_image = matches!(kind, OCI_MANIFEST | DOCKER_MANIFEST);
        match (raw.manifests, raw.config, raw.layers) {
            (Some(list), None, None) if !is_image => Ok(Self::List(limited(list, "entries", ENTRIES_LIMIT)?)),
            (None, Some(config), layers) if !is_list => {
                let layers = limited(layers.unwrap_or_default(), "layers", LAYERS_LIMIT)?;
                Ok(Self::Image { config, layers })
            }
            // One that is both would be one thing to us and another to whoever pulls it.
            _ => Err(ManifestError::Kind("ambiguous".to_owned())),
        }
    }
}

fn limited<T>(list: Vec<T>, what: &'static str, limit: usize) -> Result<Vec<T>, ManifestError> {
    if list.len() <= limit {
        Ok(list)
    } else {
        Err(ManifestError::TooMany { what, count: list.len(), limit })
    }
}

impl Descriptor {
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.media_type.as_str(), OCI_INDEX | DOCKER_LIST)
    }

    /// Whether it is an image for a platform, and not an attestation that lies beside one.
    pub fn is_real(&self) -> bool {
        let unknown = |platform: &Platform| platform.architecture == "unknown" || platform.os == "unknown";
        !self.platform.as_ref().is_some_and(unknown)
            && !self.annotations.contains_key("vnd.docker.reference.type")
    }

    /// Whether it is a layer of files that the registry itself holds.
    pub fn is_file_layer(&self) -> bool {
        let kind = self.media_type.as_str();
        kind.starts_with("application/vnd.oci.image.layer.v1.tar")
            || kind.starts_with("application/vnd.docker.image.rootfs.diff.tar")
    }
}

/// What is read of an image's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ImageConfig {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    config: Option<Inner>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Inner {
    #[serde(default, rename = "Labels", deserialize_with = "null_is_none")]
    labels: BTreeMap<String, String>,
}

impl ImageConfig {
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub fn labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.config.iter().flat_map(|inner| &inner.labels)
    }
}

fn null_is_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> String {
        format!(r#"{{"mediaType":"x","digest":"{}","size":3}}"#, Digest::sha256(b"abc"))
    }

    #[test]
    fn a_manifest_is_what_its_bytes_say() {
        let d = descriptor();
        let image = format!(r#"{{"schemaVersion":2,"config":{d},"layers":[{d}],"annotations":null}}"#);
        assert!(
            matches!(Manifest::parse(image.as_bytes()), Ok(Manifest::Image { layers, .. }) if layers.len() == 1)
        );
        let list = format!(r#"{{"schemaVersion":2,"mediaType":"{OCI_INDEX}","manifests":[{d},{d}]}}"#);
        assert!(matches!(Manifest::parse(list.as_bytes()), Ok(Manifest::List(list)) if list.len() == 2));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let d = descriptor();
        for text in [
            format!(r#"{{"schemaVersion":2,"config":{d},"layers":[],"manifests":[]}}"#),
            format!(r#"{{"schemaVersion":2,"mediaType":"{OCI_INDEX}","config":{d},"layers":[]}}"#),
            format!(r#"{{"schemaVersion":2,"mediaType":"{OCI_MANIFEST}","manifests":[{d}]}}"#),
            r#"{"schemaVersion":1,"name":"a","fsLayers":[]}"#.to_owned(),
            r#"{"schemaVersion":2}"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert!(Manifest::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn configurations_without_labels_are_read() {
        for text in ["{}", r#"{"config":null}"#, r#"{"config":{"Labels":null}}"#] {
            assert_eq!(ImageConfig::parse(text.as_bytes()).unwrap().labels().count(), 0, "{text}");
        }
        let config = br#"{"architecture":"arm64","config":{"Labels":{"a":"b"}}}"#;
        let config = ImageConfig::parse(config).unwrap();
        assert_eq!((config.architecture.as_str(), config.labels().count()), ("arm64", 1));
    }
}
