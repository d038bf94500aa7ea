//! Which of the agents this one is: of the newest revision of its Deployment, or of one that is being replaced.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};

use super::error::ClusterError;

const REVISION: &str = "deployment.kubernetes.io/revision";
/// Revisions of one Deployment that are looked at; Kubernetes keeps ten, unless it is told otherwise.
const REVISIONS: u32 = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing in the cluster started it, so nothing there replaces it.
    Outside,
    /// Its Deployment's controller has not looked at the last change yet.
    Undecided,
    Newest,
    /// Another revision is to run instead; `ready` when one of it does.
    Superseded {
        ready: bool,
        why: String,
    },
}

#[derive(Debug, Clone)]
pub struct Myself {
    pub namespace: String,
    pub pod: Option<String>,
}

impl Myself {
    pub async fn standing(&self, client: &Client) -> Result<Standing, ClusterError> {
        let Some(pod) = &self.pod else { return Ok(Standing::Outside) };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), &self.namespace);
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &self.namespace);
        let asked = || ClusterError::request("find out which agent this is");
        let Some(pod) = pods.get_opt(pod).await.map_err(asked())? else { return Ok(Standing::Outside) };
        let Some((set, _)) = owner(&pod.metadata, "ReplicaSet") else { return Ok(Standing::Outside) };
        let Some(set) = sets.get_opt(&set).await.map_err(asked())? else { return Ok(Standing::Outside) };
        let Some((name, uid)) = owner(&set.metadata, "Deployment") else { return Ok(Standing::Outside) };
        let Some(deployment) = deployments.get_opt(&name).await.map_err(asked())? else {
            return Ok(Standing::Outside);
        };
        let status = deployment.status.clone().unwrap_or_default();
        if status.observed_generation < deployment.metadata.generation {
            return Ok(Standing::Undecided);
        }
        let newest = revision(&deployment.metadata);
        if revision(&set.metadata) == newest {
            return Ok(Standing::Newest);
        }
        let all = sets.list(&ListParams::default().limit(REVISIONS)).await.map_err(asked())?;
        let next = all.items.iter().find(|set| {
            owner(&set.metadata, "Deployment").is_some_and(|(_, of)| of == uid)
                && revision(&set.metadata) == newest
        });
        let Some(next) = next else { return Ok(Standing::Undecided) };
        let ready = next.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0) > 0;
        let why = match next.metadata.name.as_deref() {
            Some(name) if !ready => not_ready(&pods, name).await,
            _ => String::new(),
        };
        Ok(Standing::Superseded { ready, why })
    }
}

fn owner(metadata: &ObjectMeta, kind: &str) -> Option<(String, String)> {
    let owners = metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.kind == kind).map(|owner| (owner.name.clone(), owner.uid.clone()))
}

fn revision(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(REVISION).map(String::as_str)
}

/// What keeps the first of its pods, in the words of Kubernetes.
async fn not_ready(pods: &Api<Pod>, set: &str) -> String {
    let none = "none of its pods has started".to_owned();
    let Ok(all) = pods.list(&ListParams::default().limit(REVISIONS)).await else { return none };
    let of_it = |pod: &&Pod| owner(&pod.metadata, "ReplicaSet").is_some_and(|(name, _)| name == set);
    let Some(pod) = all.items.iter().find(of_it) else { return none };
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let states = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let waits = states.filter_map(|it| it.state.as_ref()?.waiting.as_ref()).next();
    match waits {
        Some(waiting) => {
            let (reason, message) = (waiting.reason.as_deref(), waiting.message.as_deref());
            let words: Vec<&str> = reason.into_iter().chain(message).collect();
            format!("its pod {name} waits: {}", words.join(": "))
        }
        None => format!("its pod {name} is not ready"),
    }
}
