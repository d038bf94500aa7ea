//! What identifies a release, an image of it on disk, and a snapshot.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// `TAG-BUILD-COMMIT`. Newer and older go by the build id alone; equal build ids are the same release.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReleaseVersion {
    tag: String,
    build: u64,
    commit: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadReleaseVersion {
    #[error("{0:?} is not a release: expected TAG-BUILD-COMMIT, like v1.2.0-45-3f2c1a9")]
    Form(String),
    #[error("the build id of {text:?} is {build:?}, which is not a number")]
    Build { text: String, build: String },
}

const LONGEST: usize = 128;

impl ReleaseVersion {
    pub fn parse(text: &str) -> Result<Self, BadReleaseVersion> {
        let form = || BadReleaseVersion::Form(text.chars().take(LONGEST).collect());
        // It becomes part of file names: nothing that leads out of a directory, and no hidden files.
        let harmless = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | '~');
        if text.len() > LONGEST
            || !text.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !text.chars().all(harmless)
        {
            return Err(form());
        }
        // From the right: a tag may hold dashes (`v1.2.0-rc.1`), the other two never do.
        let (rest, commit) = text.rsplit_once('-').ok_or_else(form)?;
        let (tag, build) = rest.rsplit_once('-').ok_or_else(form)?;
        if tag.is_empty() || commit.is_empty() {
            return Err(form());
        }
        let number = build.bytes().all(|b| b.is_ascii_digit()).then(|| build.parse().ok()).flatten();
        let build = number
            .ok_or_else(|| BadReleaseVersion::Build { text: text.to_owned(), build: build.to_owned() })?;
        Ok(Self { tag: tag.to_owned(), build, commit: commit.to_owned() })
    }

    pub fn tag(&self) -> &str {
        &self.tag
    }

    pub fn build(&self) -> u64 {
        self.build
    }

    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// By the build id alone.
    pub fn age(&self, other: &Self) -> Ordering {
        self.build.cmp(&other.build)
    }

    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.age(other) == Ordering::Greater
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.tag, self.build, self.commit)
    }
}

impl TryFrom<String> for ReleaseVersion {
    type Error = BadReleaseVersion;
    fn try_from(text: String) -> Result<Self, BadReleaseVersion> {
        Self::parse(&text)
    }
}

impl From<ReleaseVersion> for String {
    fn from(version: ReleaseVersion) -> Self {
        version.to_string()
    }
}

/// The name of an image on disk: its version and the beginning of its digest. Images of several versions stand side by
/// side, and the same build with other content is another image.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ImageId(String);

const DIGEST_CHARS: usize = 16;

impl ImageId {
    /// `digest` is `ALGORITHM:HEX`; anything else in it is left out of the name.
    pub fn new(version: &ReleaseVersion, digest: &str) -> Self {
        let hex = digest.rsplit(':').next().unwrap_or_default();
        let hex: String = hex.chars().filter(char::is_ascii_alphanumeric).take(DIGEST_CHARS).collect();
        Self(format!("{version}@{hex}"))
    }

    /// The version in its name, which is there also when the image itself is gone.
    pub fn version(&self) -> Result<ReleaseVersion, BadReleaseVersion> {
        ReleaseVersion::parse(self.0.rsplit_once('@').map_or(self.0.as_str(), |(version, _)| version))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A release as it stands on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    pub id: ImageId,
    pub version: ReleaseVersion,
}

impl Image {
    pub fn new(version: ReleaseVersion, digest: &str) -> Self {
        Self { id: ImageId::new(&version, digest), version }
    }
}

/// Chosen by whoever begins a transaction, and never used again: two snapshots of the same name cannot be confused
/// where names are not names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(String);

impl SnapshotId {
    /// From random bytes of the caller's.
    pub fn new(random: [u8; 12]) -> Self {
        Self(random.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_tag_build_and_commit_and_only_the_build_decides() {
        let old = ReleaseVersion::parse("v2.0.0-rc.1-41-aaaaaaa").unwrap();
        assert_eq!((old.tag(), old.build(), old.commit()), ("v2.0.0-rc.1", 41, "aaaaaaa"));
        assert_eq!(old.to_string(), "v2.0.0-rc.1-41-aaaaaaa");
        let new = ReleaseVersion::parse("v1.9.9-42-bbbbbbb").unwrap();
        assert!(new.is_newer_than(&old) && !old.is_newer_than(&new) && !new.is_newer_than(&new));
    }

    #[test]
    fn what_is_no_version_is_an_error_that_says_why() {
        for bad in ["", "v1", "v1-2", "-1-a", "v1-1-", "v1/../x-1-a", ".x-1-a", "v1-1-a\n", "v 1-1-a"] {
            assert!(matches!(ReleaseVersion::parse(bad), Err(BadReleaseVersion::Form(_))), "{bad:?}");
        }
        for bad in ["v1-x-a", "v1--a", "v1-+1-a", "v1-99999999999999999999-a"] {
            assert!(matches!(ReleaseVersion::parse(bad), Err(BadReleaseVersion::Build { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_same_build_with_other_content_is_another_image() {
        let version = ReleaseVersion::parse("v1-1-a").unwrap();
        let ids = ["sha256:aa11", "sha256:aa12"].map(|digest| ImageId::new(&version, digest));
        assert_eq!(ids[0].as_str(), "v1-1-a@aa11");
        assert_eq!(ids[0].version(), Ok(version));
        assert_ne!(ids[0], ids[1]);
    }
}
