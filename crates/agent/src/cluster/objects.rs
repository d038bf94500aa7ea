//! One object in the cluster: applied, looked at, removed. Fields are the agent's own by server-side apply, so that what others
//! have set on the object stays.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::discovery::{self, Scope};
use serde_json::Value;

use super::error::ClusterError;
use super::manifests::Manifest;

/// Whose fields they are.
const MANAGER: &str = "holdfast-agent";

pub struct Objects {
    client: Client,
    /// As discovery told.
    kinds: Mutex<HashMap<GroupVersionKind, (ApiResource, Scope)>>,
}

impl Objects {
    pub fn new(client: Client) -> Self {
        Self { client, kinds: Mutex::default() }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As it is after that.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Value, ClusterError> {
        let api = self.api(manifest).await?;
        let parameters = PatchParams::apply(MANAGER).force();
        let applied = api.patch(manifest.name(), &parameters, &Patch::Apply(&manifest.object)).await;
        value(applied.map_err(ClusterError::request("apply it"))?)
    }

    /// None when it is not there.
    pub async fn get(&self, manifest: &Manifest) -> Result<Option<Value>, ClusterError> {
        let api = self.api(manifest).await?;
        let found = api.get_opt(manifest.name()).await.map_err(ClusterError::request("look at it"))?;
        found.map(value).transpose()
    }

    /// Asks for it to go; what it is waited for may take a while.
    pub async fn remove(&self, manifest: &Manifest) -> Result<(), ClusterError> {
        let api = match self.api(manifest).await {
            // Nothing of a kind that is not there is there.
            Err(ClusterError::NoSuchKind(_)) => return Ok(()),
            api => api?,
        };
        match api.delete(manifest.name(), &DeleteParams::background()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()).map_err(ClusterError::request("remove it")),
        }
    }

    async fn api(&self, manifest: &Manifest) -> Result<Api<DynamicObject>, ClusterError> {
        let version = manifest.object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, manifest.kind());
        let (resource, scope) = self.kind(&kind).await?;
        match (scope, manifest.namespace()) {
            (Scope::Cluster, _) => Ok(Api::all_with(self.client.clone(), &resource)),
            (Scope::Namespaced, Some(namespace)) => {
                Ok(Api::namespaced_with(self.client.clone(), namespace, &resource))
            }
            (Scope::Namespaced, None) => Err(ClusterError::NoNamespace),
        }
    }

    async fn kind(&self, kind: &GroupVersionKind) -> Result<(ApiResource, Scope), ClusterError> {
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let unknown = || {
            let group = if kind.group.is_empty() { String::new() } else { format!("{}/", kind.group) };
            ClusterError::NoSuchKind(format!("{} of {group}{}", kind.kind, kind.version))
        };
        match discovery::pinned_kind(&self.client, kind).await {
            Ok((resource, capabilities)) => {
                let found = (resource, capabilities.scope);
                let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
                kinds.insert(kind.clone(), found.clone());
                Ok(found)
            }
            Err(kube::Error::Discovery(_)) => Err(unknown()),
            Err(kube::Error::Api(status)) if status.code == 404 => Err(unknown()),
            Err(error) => Err(ClusterError::request("find out what it is")(error)),
        }
    }
}

fn value(object: DynamicObject) -> Result<Value, ClusterError> {
    serde_json::to_value(object).map_err(kube::Error::SerdeError).map_err(ClusterError::request("read it"))
}
