//! What is known about how a resource's objects are stored.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What discovery shows of a storage version: the first eight bytes of a digest, in base64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VersionHash(String);

impl VersionHash {
    /// As the API server computes it; `group` is empty for the core group.
    pub fn of(group: &str, version: &str, kind: &str) -> Self {
        let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
        Self(BASE64_STANDARD.encode(&digest[..8]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for VersionHash {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for VersionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A version that objects may be stored in, or the admission that it isn't known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum StoredVersion {
    Unknown,
    Known(VersionHash),
}

const UNKNOWN: &str = "Unknown";

impl From<String> for StoredVersion {
    fn from(text: String) -> Self {
        match text == UNKNOWN || text.is_empty() {
            true => Self::Unknown,
            false => Self::Known(VersionHash(text)),
        }
    }
}

impl From<StoredVersion> for String {
    fn from(version: StoredVersion) -> Self {
        version.to_string()
    }
}

impl From<VersionHash> for StoredVersion {
    fn from(hash: VersionHash) -> Self {
        Self::Known(hash)
    }
}

impl fmt::Display for StoredVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => UNKNOWN,
            Self::Known(hash) => hash.as_str(),
        })
    }
}

/// The status of a StorageState.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// Every version that stored objects may still be in, each once, in the order in which they came.
    pub persisted: Vec<StoredVersion>,
    /// What the API servers write now; unknown while they disagree.
    pub current: StoredVersion,
    /// When discovery was last compared with this, in seconds since 1970.
    pub heartbeat: i64,
    /// Counts what made earlier migrations worthless. A migration counts for the change that it was made for, and a
    /// version that comes, goes and comes again is not taken for migrated by the migration of its first time.
    pub changes: u64,
    /// Of the custom resource's definition when this was written: it tells of changes that nobody saw.
    pub generation: Option<i64>,
}

impl State {
    /// A resource of which nothing is known but what is written now.
    pub fn unknown(current: StoredVersion, heartbeat: i64) -> Self {
        Self { persisted: vec![StoredVersion::Unknown], current, heartbeat, changes: 1, generation: None }
    }

    /// Everything is stored in the current version, so far as is known.
    pub fn is_settled(&self) -> bool {
        matches!(self.current, StoredVersion::Known(_))
            && self.persisted.len() == 1
            && self.persisted[0] == self.current
    }

    /// Whether API servers disagree on what is written, by somebody who looked not longer ago than `patience`: without a
    /// trigger nobody writes down that they agree again.
    pub fn is_disputed(&self, now: i64, patience: i64) -> bool {
        self.current == StoredVersion::Unknown && self.heartbeat.abs_diff(now) <= patience.unsigned_abs()
    }

    /// Adds versions that objects may be stored in; each is held once.
    pub fn may_hold(&mut self, versions: impl IntoIterator<Item = StoredVersion>) {
        for version in versions {
            if !self.persisted.contains(&version) {
                self.persisted.push(version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_api_servers() {
        // As kube-apiserver 1.20.2 shows them in its discovery documents.
        assert_eq!(VersionHash::of("", "v1", "Pod").as_str(), "xPOwRZ+Yhw8=");
        assert_eq!(VersionHash::of("apps", "v1", "Deployment").as_str(), "8aSe+NMegvE=");
    }

    #[test]
    fn a_version_is_held_once() {
        let (a, b) = (VersionHash::from("a"), VersionHash::from("b"));
        let mut state = State::unknown(a.clone().into(), 0);
        state.may_hold([a.clone().into(), b.clone().into(), a.clone().into()]);
        assert_eq!(state.persisted, [StoredVersion::Unknown, a.into(), b.into()]);
        assert!(!state.is_settled());
    }

    #[test]
    fn a_dispute_is_one_while_somebody_looks() {
        let disputed = State::unknown(StoredVersion::Unknown, 1000);
        assert!(disputed.is_disputed(1010, 20));
        assert!(!disputed.is_disputed(1021, 20));
        assert!(!State::unknown(VersionHash::from("a").into(), 1000).is_disputed(1010, 20));
    }
}
