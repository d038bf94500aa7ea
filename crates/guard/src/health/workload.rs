//! Whether a Kubernetes workload is rolled out and ready, from the object alone. Pure.
//!
//! The rules are those of `kubectl rollout status`; where it refuses to answer (update strategy `OnDelete`),
//! the workload counts as ready when enough of its pods are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadKind {
    Deployment,
    DaemonSet,
    StatefulSet,
}

impl WorkloadKind {
    pub const ALL: [Self; 3] = [Self::Deployment, Self::DaemonSet, Self::StatefulSet];

    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
            Self::StatefulSet => "StatefulSet",
        }
    }

    /// As in the path of the API.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::DaemonSet => "daemonsets",
            Self::StatefulSet => "statefulsets",
        }
    }
}

/// `Deployment/namespace/name`
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Workload {
    pub kind: WorkloadKind,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a workload: write KIND/NAMESPACE/NAME, with Deployment, DaemonSet or StatefulSet")]
pub struct BadWorkload {
    pub text: String,
}

impl FromStr for Workload {
    type Err = BadWorkload;

    fn from_str(text: &str) -> Result<Self, BadWorkload> {
        let bad = || BadWorkload { text: text.to_owned() };
        let [kind, namespace, name] =
            text.split('/').collect::<Vec<_>>().try_into().map_err(|_: Vec<_>| bad())?;
        let kind = WorkloadKind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(bad)?;
        if !is_kubernetes_name(namespace) || !is_kubernetes_name(name) {
            return Err(bad());
        }
        Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.name(), self.namespace, self.name)
    }
}

impl TryFrom<String> for Workload {
    type Error = BadWorkload;
    fn try_from(text: String) -> Result<Self, BadWorkload> {
        text.parse()
    }
}

impl From<Workload> for String {
    fn from(workload: Workload) -> Self {
        workload.to_string()
    }
}

/// A DNS subdomain, as names of objects are; in particular it can't leave its place in a URL's path.
pub(crate) fn is_kubernetes_name(name: &str) -> bool {
    let inside = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= 253
        && name.bytes().all(inside)
        && edge(name.chars().next())
        && edge(name.chars().next_back())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// Not yet, or no longer; in words.
    Waiting(String),
}

/// The parts of the three kinds that decide. Numbers that are zero are left out by the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Object {
    pub metadata: Metadata,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub status: Status,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Metadata {
    pub name: String,
    #[serde(default)]
    pub generation: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    pub replicas: Option<i64>,
    pub update_strategy: Option<UpdateStrategy>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    #[serde(rename = "type", default)]
    pub kind: String,
    pub rolling_update: Option<RollingUpdate>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct RollingUpdate {
    pub partition: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: i64,
    pub replicas: i64,
    pub updated_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub desired_number_scheduled: i64,
    pub updated_number_scheduled: i64,
    pub number_available: i64,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Condition {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub reason: String,
}

/// The decision.
pub fn readiness(kind: WorkloadKind, object: &Object) -> Readiness {
    let status = &object.status;
    if status.observed_generation < object.metadata.generation
        || (kind == WorkloadKind::StatefulSet && status.observed_generation == 0)
    {
        return Readiness::Waiting("its controller has not seen the latest change".to_owned());
    }
    let waiting = match kind {
        WorkloadKind::Deployment => deployment(object.spec.replicas.unwrap_or(1), status),
        WorkloadKind::DaemonSet => daemon_set(on_delete(object), status),
        WorkloadKind::StatefulSet => stateful_set(object, status),
    };
    waiting.map_or(Readiness::Ready, Readiness::Waiting)
}

fn deployment(replicas: i64, status: &Status) -> Option<String> {
    let gave_up = |condition: &Condition| {
        condition.kind == "Progressing" && condition.reason == "ProgressDeadlineExceeded"
    };
    if status.conditions.iter().any(gave_up) {
        Some("it went past its progress deadline".to_owned())
    } else if status.updated_replicas < replicas {
        Some(format!("{} of {replicas} replicas are updated", status.updated_replicas))
    } else if status.replicas > status.updated_replicas {
        Some(format!("{} old replicas are still there", status.replicas - status.updated_replicas))
    } else if status.available_replicas < status.updated_replicas {
        let Status { available_replicas, updated_replicas, .. } = status;
        Some(format!("{available_replicas} of {updated_replicas} updated replicas are available"))
    } else {
        None
    }
}

fn daemon_set(on_delete: bool, status: &Status) -> Option<String> {
    let desired = status.desired_number_scheduled;
    if status.updated_number_scheduled < desired && !on_delete {
        Some(format!("{} of {desired} pods are updated", status.updated_number_scheduled))
    } else if status.number_available < desired {
        Some(format!("{} of {desired} pods are available", status.number_available))
    } else {
        None
    }
}

fn stateful_set(object: &Object, status: &Status) -> Option<String> {
    let replicas = object.spec.replicas.unwrap_or(1);
    let rolling = object.spec.update_strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let to_update = replicas - rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
    if status.ready_replicas < replicas {
        Some(format!("{} of {replicas} replicas are ready", status.ready_replicas))
    } else if status.updated_replicas < to_update && !on_delete(object) {
        Some(format!("{} of {to_update} replicas are updated", status.updated_replicas))
    } else {
        None
    }
}

fn on_delete(object: &Object) -> bool {
    object.spec.update_strategy.as_ref().is_some_and(|strategy| strategy.kind == "OnDelete")
}
