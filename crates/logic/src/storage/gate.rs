//! The gate: is it safe to move to an API server that understands these versions, and no others?

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::resource::Resource;
use super::state::{State, StoredVersion, VersionHash};

/// What the other API server understands of one resource: an entry of the list that a person gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Supported {
    /// `cronjobs.batch`.
    pub resource: String,
    /// `v1`, or `batch/v1`. Needs the kind, which this API server or the entry itself tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hashes: Vec<VersionHash>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gate {
    /// Empty: it is safe.
    pub blockers: Vec<Blocker>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    pub resource: Resource,
    pub reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nobody knows which versions its objects are stored in.
    Unknown,
    /// Objects may be stored in versions that are not understood there.
    NotUnderstood(Vec<StoredVersion>),
    /// The list does not name it.
    NotListed,
    /// Versions can't be compared without the kind.
    NoKind,
    /// It is served, but no StorageState tells how it is stored.
    NoState,
    /// What is known of it is too old.
    Stale { seconds: u64 },
    /// The API server writes another version than the one on record.
    Changed(VersionHash),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("how its objects are stored is not known"),
            Self::NotUnderstood(versions) => {
                let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
                write!(f, "objects may be stored as {}, which is not supported there", versions.join(", "))
            }
            Self::NotListed => f.write_str("the list of supported versions does not name it"),
            Self::NoKind => f.write_str(
                "its kind is not known here, so versions can't be compared: give \"kind\" or \"hashes\"",
            ),
            Self::NoState => f.write_str("it has no StorageState: no controller has looked at it yet"),
            Self::Changed(hash) => {
                write!(f, "it is written as {hash} now, which no controller has seen yet")
            }
            Self::Stale { seconds } => {
                write!(
                    f,
                    "nobody has looked at it for {seconds} s: its storage version may have changed since"
                )
            }
        }
    }
}

/// How a resource is served here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedHere {
    pub kind: String,
    /// What it is written as.
    pub hash: VersionHash,
}

/// `served` are the resources that are served here and have a storage version; `states` is what is recorded.
pub fn gate(
    states: &BTreeMap<Resource, State>,
    served: &BTreeMap<Resource, ServedHere>,
    supported: &[Supported],
    now: i64,
    patience: i64,
) -> Gate {
    let everything: BTreeSet<&Resource> = states.keys().chain(served.keys()).collect();
    let understood = understood(served, supported);
    let blocked = |resource: &Resource| {
        let served = served.get(resource);
        let state = match states.get(resource) {
            None => return Some(Reason::NoState),
            Some(state) => state,
        };
        unknown(state, served, now, patience).or_else(|| {
            let name = resource.to_string();
            let entries: Vec<_> = supported.iter().filter(|entry| entry.resource == name).collect();
            let can_be_compared = |entry: &&Supported| entry.kind.is_some() || !entry.hashes.is_empty();
            match served {
                _ if entries.is_empty() => Some(Reason::NotListed),
                None if !entries.iter().any(can_be_compared) => Some(Reason::NoKind),
                _ => missing(state, &understood),
            }
        })
    };
    let blocker =
        |resource: &Resource| Some(Blocker { resource: resource.clone(), reason: blocked(resource)? });
    Gate { blockers: everything.into_iter().filter_map(blocker).collect() }
}

/// Every hash that the list names. Of all resources together: some are stored in the version of another group, as
/// `events.events.k8s.io` are in that of `events`, and whoever understands it there does so here.
fn understood(served: &BTreeMap<Resource, ServedHere>, supported: &[Supported]) -> BTreeSet<VersionHash> {
    let mut hashes = BTreeSet::new();
    for entry in supported {
        hashes.extend(entry.hashes.iter().cloned());
        let Ok(resource) = entry.resource.parse::<Resource>() else { continue };
        let here = served.get(&resource).map(|it| &it.kind);
        let Some(kind) = entry.kind.as_ref().or(here) else { continue };
        hashes.extend(entry.versions.iter().map(|version| {
            let (group, version) = version.rsplit_once('/').unwrap_or((&resource.group, version));
            VersionHash::of(group, version, kind)
        }));
    }
    hashes
}

/// Why what is on record can't be relied on.
fn unknown(state: &State, served: Option<&ServedHere>, now: i64, patience: i64) -> Option<Reason> {
    if state.persisted.is_empty() || state.persisted.contains(&StoredVersion::Unknown) {
        return Some(Reason::Unknown);
    }
    // One that is not served has no heart to beat; what was stored of it then is stored still.
    let served = served?;
    let age = state.heartbeat.abs_diff(now);
    if age > patience.unsigned_abs() {
        return Some(Reason::Stale { seconds: age });
    }
    let recorded = StoredVersion::from(served.hash.clone());
    (!state.persisted.contains(&recorded)).then(|| Reason::Changed(served.hash.clone()))
}

fn missing(state: &State, understood: &BTreeSet<VersionHash>) -> Option<Reason> {
    let mut missing = state.persisted.clone();
    missing.retain(|version| !matches!(version, StoredVersion::Known(hash) if understood.contains(hash)));
    (!missing.is_empty()).then_some(Reason::NotUnderstood(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cronjobs() -> Resource {
        Resource::new("batch", "cronjobs")
    }

    fn hash(version: &str) -> StoredVersion {
        VersionHash::of("batch", version, "CronJob").into()
    }

    fn current(persisted: &[StoredVersion]) -> StoredVersion {
        persisted.last().cloned().unwrap_or(StoredVersion::Unknown)
    }

    fn served(written: &StoredVersion) -> BTreeMap<Resource, ServedHere> {
        let hash = written.to_string().as_str().into();
        BTreeMap::from([(cronjobs(), ServedHere { kind: "CronJob".to_owned(), hash })])
    }

    fn of(persisted: &[StoredVersion], supported: &str) -> Option<Reason> {
        let state = State {
            persisted: persisted.to_vec(),
            current: current(persisted),
            heartbeat: 1000,
            changes: 1,
            generation: None,
        };
        let supported: Vec<Supported> = serde_json::from_str(supported).unwrap();
        let states = BTreeMap::from([(cronjobs(), state)]);
        let found = gate(&states, &served(&current(persisted)), &supported, 1100, 600);
        found.blockers.into_iter().next().map(|blocker| blocker.reason)
    }

    #[test]
    fn every_version_that_may_be_stored_must_be_understood() {
        let both = [hash("v2alpha1"), hash("v2beta1")];
        assert_eq!(
            of(&both, r#"[{"resource":"cronjobs.batch","versions":["v2alpha1","batch/v2beta1"]}]"#),
            None
        );
        assert_eq!(
            of(&both, r#"[{"resource":"cronjobs.batch","versions":["v2beta1"]}]"#),
            Some(Reason::NotUnderstood(vec![hash("v2alpha1")]))
        );
        let hashes = format!(r#"[{{"resource":"cronjobs.batch","hashes":["{}"]}}]"#, hash("v2beta1"));
        assert_eq!(of(&both[1..], &hashes), None);
        assert_eq!(of(&both, "[]"), Some(Reason::NotListed));
    }

    #[test]
    fn what_is_stored_in_the_version_of_another_group_is_understood_there() {
        let resource = Resource::new("events.k8s.io", "events");
        let stored = VersionHash::of("", "v1", "Event");
        let persisted: Vec<StoredVersion> = vec![stored.clone().into()];
        let state =
            State { current: persisted[0].clone(), persisted, heartbeat: 0, changes: 1, generation: None };
        let here = ServedHere { kind: "Event".into(), hash: stored };
        let both = [(Resource::new("", "events"), here.clone()), (resource.clone(), here)].into();
        let list = r#"[{"resource":"events","versions":["v1"]},{"resource":"events.events.k8s.io","versions":["v1"]}]"#;
        let supported: Vec<Supported> = serde_json::from_str(list).unwrap();
        let found = gate(&BTreeMap::from([(resource, state)]), &both, &supported, 0, 600);
        assert_eq!(found.blockers.len(), 1, "only the one without a state: {found:?}");
        assert_eq!(found.blockers[0].reason, Reason::NoState);
    }

    #[test]
    fn what_is_not_known_is_not_safe() {
        let all = r#"[{"resource":"cronjobs.batch","versions":["v1"]}]"#;
        assert_eq!(of(&[StoredVersion::Unknown, hash("v1")], all), Some(Reason::Unknown));
        assert_eq!(of(&[], all), Some(Reason::Unknown));
        let kinds = served(&hash("v1"));
        let supported: Vec<Supported> = serde_json::from_str(all).unwrap();
        let none = gate(&BTreeMap::new(), &kinds, &supported, 0, 600);
        assert_eq!(none.blockers[0].reason, Reason::NoState);
        let state = State {
            persisted: vec![hash("v1")],
            current: hash("v1"),
            heartbeat: 0,
            changes: 1,
            generation: None,
        };
        let states = BTreeMap::from([(cronjobs(), state)]);
        let changed = gate(&states, &served(&hash("v2")), &supported, 1, 600);
        assert!(matches!(changed.blockers[0].reason, Reason::Changed(_)));
        let old = gate(&states, &kinds, &supported, 601, 600);
        assert_eq!(old.blockers[0].reason, Reason::Stale { seconds: 601 });
        // Not served any more: its objects lie where they were, and the kind must be told.
        let unserved = gate(&states, &BTreeMap::new(), &supported, 601, 600);
        assert_eq!(unserved.blockers[0].reason, Reason::NoKind);
    }
}
