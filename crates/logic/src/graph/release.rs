//! A release as it was found: a version, an architecture, a payload, and what it says about its neighbours.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use semver::Version;
use serde::{Deserialize, Serialize};

/// An architecture as images name it (`amd64`), or `multi` for an image of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arch(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an architecture: expected letters and digits, such as amd64")]
pub struct BadArch(String);

impl Arch {
    /// What an image of several architectures counts as.
    pub const MULTI: &'static str = "multi";

    pub fn parse(text: &str) -> Result<Self, BadArch> {
        let fits = !text.is_empty()
            && text.len() <= 32
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if fits { Ok(Self(text.into())) } else { Err(BadArch(text.chars().take(80).collect())) }
    }

    pub fn multi() -> Self {
        Self(Self::MULTI.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Arch {
    type Error = BadArch;
    fn try_from(text: String) -> Result<Self, BadArch> {
        Self::parse(&text)
    }
}

impl From<Arch> for String {
    fn from(arch: Arch) -> Self {
        arch.0.as_ref().to_owned()
    }
}

/// What names a release: its version, and the architecture that the version's build part stands for.
///
/// Ordered by version as semver orders them, then by architecture.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReleaseName {
    /// Without a build part.
    pub version: Version,
    /// None where a release makes no claim: it then fits every client.
    pub arch: Option<Arch>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a release version: {why}")]
pub struct BadName {
    text: String,
    why: String,
}

/// No version is longer.
const VERSION_LIMIT: usize = 256;

impl ReleaseName {
    pub fn new(version: Version, arch: Option<Arch>) -> Self {
        Self { version, arch }
    }

    /// `4.16.15`, or `4.16.15+amd64`.
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let bad = |why: String| BadName { text: text.chars().take(80).collect(), why };
        if text.len() > VERSION_LIMIT {
            return Err(bad(format!("longer than {VERSION_LIMIT} bytes")));
        }
        let mut version = Version::parse(text.trim()).map_err(|error| bad(error.to_string()))?;
        let build = std::mem::take(&mut version.build);
        let arch = match build.as_str() {
            "" => None,
            arch => Some(Arch::parse(arch).map_err(|error| bad(error.to_string()))?),
        };
        Ok(Self { version, arch })
    }

    /// The same version, for `arch` unless it names one of its own.
    pub fn or_arch(mut self, arch: Option<&Arch>) -> Self {
        self.arch = self.arch.or_else(|| arch.cloned());
        self
    }
}

impl fmt::Display for ReleaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arch {
            Some(arch) => write!(f, "{}+{arch}", self.version),
            None => write!(f, "{}", self.version),
        }
    }
}

impl Serialize for ReleaseName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReleaseName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// One release of one architecture, as a source found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub name: ReleaseName,
    /// Where the image is, by digest; empty where a source does not know.
    pub payload: String,
    /// From the release itself and its image's labels. Keys under [`super::labels::PREFIX`] shape the graph.
    pub metadata: BTreeMap<String, String>,
    /// Versions, as written, that may move to this release; without a build part they take this release's architecture.
    pub previous: Vec<String>,
    /// Versions, as written, that this release may move to.
    pub next: Vec<String>,
    pub origin: Origin,
}

/// Where a release was found. Of two that claim the same name, the one that sorts first is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Position of the source in the configuration.
    pub source: usize,
    /// The tag; or the position in a graph that came ready-made.
    pub tag: String,
    pub digest: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tag.as_str(), self.digest.as_str()) {
            ("", digest) => write!(f, "{digest}"),
            (tag, "") => write!(f, "{tag}"),
            (tag, digest) => write!(f, "{tag} ({digest})"),
        }
    }
}

/// The file `release-manifests/release-metadata` of a release image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseMetadata {
    pub kind: MetadataKind,
    pub version: Version,
    #[serde(default)]
    pub previous: Vec<String>,
    #[serde(default)]
    pub next: Vec<String>,
    #[serde(default, deserialize_with = "text_values")]
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataKind {
    #[serde(rename = "cincinnati-metadata-v0")]
    V0,
}

/// Publishers leave out values, or write null for "none".
fn text_values<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Option<String>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(map.into_iter().filter_map(|(key, value)| Some((key, value?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_an_architecture() {
        let plain = ReleaseName::parse("4.16.15").unwrap();
        assert_eq!((plain.version.to_string().as_str(), &plain.arch), ("4.16.15", &None));
        let suffixed = ReleaseName::parse("4.16.0-rc.1+arm64").unwrap();
        assert_eq!(suffixed.arch.as_ref().map(Arch::as_str), Some("arm64"));
        assert_eq!(suffixed.to_string(), "4.16.0-rc.1+arm64");
        for text in ["", "4.16", "v4.16.1", "4.16.1+a.b", "4.16.1 x", &"1".repeat(300)] {
            assert!(ReleaseName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_architecture_is_taken_only_where_none_is_named() {
        let arch = Arch::parse("s390x").unwrap();
        let name = |text: &str| ReleaseName::parse(text).unwrap().or_arch(Some(&arch)).to_string();
        assert_eq!((name("1.0.0"), name("1.0.0+amd64")), ("1.0.0+s390x".into(), "1.0.0+amd64".into()));
    }
}
