//! `ClusterVersion`, `holdfast.dev/v1alpha1`, as it crosses the wire. Its shape is that of OpenShift's resource of this name, so
//! that people and tools feel at home. Fields of the status that a newer agent writes are kept by an older one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::desk::{Request, What, Wishes};
use crate::quarantine::ReleaseKeys;

/// There is one.
pub const NAME: &str = "version";
pub const API_VERSION: &str = "holdfast.dev/v1alpha1";
pub const KIND: &str = "ClusterVersion";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersion {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automatic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<DesiredUpdate>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DesiredUpdate {
    /// That the graph offers. That it is a version, the resource's schema sees to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// That no graph offers; by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Although it is not recommended here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// Preconditions to pass over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<String>,
    /// Any text; another one asks for the same once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl DesiredUpdate {
    /// The same wish is one request, however often it is read.
    pub fn id(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        trust::digest::Digest::sha256(text.as_bytes()).to_string()
    }

    fn request(&self) -> Option<Request> {
        let what = match (&self.version, &self.image) {
            (Some(version), _) => {
                let to = Version::parse(version).ok()?;
                What::Update { to, anyway: self.force, forced: self.forced.clone() }
            }
            (None, Some(image)) => What::From { image: image.clone(), forced: self.forced.clone() },
            (None, None) => return None,
        };
        Some(Request { id: self.id(), what })
    }
}

impl Spec {
    pub fn wishes(&self) -> Wishes {
        Wishes {
            channel: self.channel.clone(),
            upstream: self.upstream.clone(),
            automatic: self.automatic,
            paused: self.paused.clone(),
            request: self.desired_update.as_ref().and_then(DesiredUpdate::request),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub observed_generation: i64,
    /// What the cluster is on, or on the way to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<Release>,
    pub available_updates: Vec<Release>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditional_updates: Vec<ConditionalUpdate>,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
    pub conditions: Vec<Condition>,
    /// What the agent has done to the cluster.
    pub rollout: Rollout,
    /// The agent's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub books: Option<Value>,
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    pub version: Version,
    #[serde(default)]
    pub image: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionalUpdate {
    pub release: Release,
    /// Why it is not taken by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default)]
    pub risks: Vec<Risk>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Risk {
    pub name: String,
    pub message: String,
    pub url: String,
    /// `Applies`, `DoesNotApply` or `Unknown`.
    pub verdict: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// `Partial` while it is under way, then `Completed`, `RolledBack`, `Refused` or `Abandoned`.
    pub state: String,
    pub started_time: String,
    #[serde(default)]
    pub completion_time: Option<String>,
    pub version: Version,
    #[serde(default)]
    pub image: String,
    /// By a signature.
    #[serde(default)]
    pub verified: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
    pub last_transition_time: String,
}

/// What was applied: the cluster's own books, by which an agent that takes over knows where it stands.
pub type Rollout = logic::agent::Rollout<Keys>;

/// The keys of a release, as a ConfigMap would have them: text for people to read, and base64 where it is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Keys {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, ByteString>,
}

impl From<ReleaseKeys> for Keys {
    fn from(keys: ReleaseKeys) -> Self {
        let mut kept = Self::default();
        for (name, content) in keys.0 {
            match String::from_utf8(content) {
                Ok(text) => drop(kept.data.insert(name, text)),
                Err(other) => drop(kept.binary_data.insert(name, ByteString(other.into_bytes()))),
            }
        }
        kept
    }
}

impl From<Keys> for ReleaseKeys {
    fn from(kept: Keys) -> Self {
        let text = kept.data.into_iter().map(|(name, text)| (name, text.into_bytes()));
        Self(text.chain(kept.binary_data.into_iter().map(|(name, bytes)| (name, bytes.0))).collect())
    }
}

impl kube::Resource for ClusterVersion {
    type DynamicType = ();
    type Scope = k8s_openapi::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        KIND.into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "holdfast.dev".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "clusterversions".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl ClusterVersion {
    /// One to be created.
    pub fn new(cluster_id: String) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            spec: Spec { cluster_id: Some(cluster_id), ..Spec::default() },
            status: Status::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_wish_is_one_request_and_another_text_asks_again() {
        let wish = |text: &str| -> DesiredUpdate { serde_json::from_str(text).unwrap() };
        let once = wish(r#"{"version": "1.1.0"}"#);
        assert_eq!(once.id(), wish(r#"{"force": false, "version": "1.1.0", "forced": []}"#).id());
        for other in [
            r#"{"version": "1.1.1"}"#,
            r#"{"version": "1.1.0", "request": "again"}"#,
            r#"{"version": "1.1.0", "force": true}"#,
        ] {
            assert_ne!(once.id(), wish(other).id(), "{other}");
        }
    }

    #[test]
    fn a_desired_update_is_asked_of_the_graph_or_carried_in() {
        let wishes = |text: &str| serde_json::from_str::<Spec>(text).unwrap().wishes();
        let asked = wishes(
            r#"{"paused": "wait", "automatic": true, "desiredUpdate": {"version": "1.1.0", "force": true}}"#,
        );
        assert_eq!((asked.paused.as_deref(), asked.automatic), (Some("wait"), Some(true)));
        let to = Version::new(1, 1, 0);
        assert_eq!(asked.request.unwrap().what, What::Update { to, anyway: true, forced: vec![] });
        let carried = wishes(r#"{"desiredUpdate": {"image": "r/i@sha256:00", "forced": ["nodes-ready"]}}"#);
        let forced = vec!["nodes-ready".to_owned()];
        assert_eq!(carried.request.unwrap().what, What::From { image: "r/i@sha256:00".to_owned(), forced });
        assert_eq!(wishes(r#"{"desiredUpdate": {}}"#).request, None);
        assert_eq!(wishes("{}"), Wishes::default());
    }

    #[test]
    fn what_a_newer_agent_wrote_stays() {
        let text = r#"{"history": [], "newer": {"a": 1}, "books": {"agent": {"state": "looking"}}}"#;
        let status: Status = serde_json::from_str(text).unwrap();
        let back = serde_json::to_value(&status).unwrap();
        assert_eq!(back["newer"]["a"], 1);
        assert_eq!(back["books"]["agent"]["state"], "looking");
    }

    #[test]
    fn keys_are_kept_as_they_are_and_text_stays_readable() {
        let files =
            [("vendor.pub", &b"-----BEGIN PUBLIC KEY-----\n"[..]), ("vendor.gpg", b"\x99\x01\xff\x00")];
        let keys = ReleaseKeys(files.map(|(name, content)| (name.to_owned(), content.to_vec())).into());
        let written = serde_json::to_value(Keys::from(keys.clone())).unwrap();
        assert_eq!(written["data"]["vendor.pub"], "-----BEGIN PUBLIC KEY-----\n");
        assert_eq!(written["binaryData"]["vendor.gpg"], "mQH/AA==");
        assert_eq!(ReleaseKeys::from(serde_json::from_value::<Keys>(written).unwrap()), keys);
    }
}
