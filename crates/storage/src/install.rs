//! The manifests that are in `deploy/storage`, and their way into a cluster.

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, TypeMeta};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::error::Error;

const CRDS: &str = include_str!("../../../deploy/storage/crds.yaml");
const RBAC: &str = include_str!("../../../deploy/storage/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../deploy/storage/deployment.yaml");

/// Whose fields they are, in server-side apply.
const MANAGER: &str = "holdfast";
const UNKNOWN_FIELD: &str = "x-kubernetes-validations: field not declared";
/// For the API server to serve a new custom resource.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// The two custom resources, which everything else here stands on.
pub fn custom_resources() -> Vec<DynamicObject> {
    documents(CRDS)
}

/// What the controller needs to run as: a namespace, an account, and its rights.
pub fn rights() -> Vec<DynamicObject> {
    documents(RBAC)
}

/// The controller itself, from this image.
pub fn deployment(image: &str) -> Vec<DynamicObject> {
    let mut objects = documents(DEPLOYMENT);
    for object in &mut objects {
        if let Some(container) = object.data.pointer_mut("/spec/template/spec/containers/0") {
            container["image"] = Value::from(image);
        }
    }
    objects
}

fn documents(text: &str) -> Vec<DynamicObject> {
    // They are compiled in, and a test reads them all.
    serde_saphyr::from_multiple(text).unwrap_or_default()
}

/// Makes the cluster have these, in order, whoever made them before; and waits until it serves what they define.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<(), Error> {
    for object in objects {
        let name = object.name_any();
        let types = object.types.clone().unwrap_or_default();
        let what = format!("apply {} {name}", types.kind);
        let api = api_of(client, object, &types);
        let parameters = PatchParams::apply(MANAGER).force();
        let ruled = with_rules(object);
        let mut applied =
            api.patch(&name, &parameters, &Patch::Apply(ruled.as_ref().unwrap_or(object))).await;
        if matches!(&applied, Err(kube::Error::Api(status)) if status.message.contains(UNKNOWN_FIELD)) {
            applied = api.patch(&name, &parameters, &Patch::Apply(object)).await;
        }
        applied.map_err(Error::request(what.clone()))?;
        if types.kind == "CustomResourceDefinition" {
            established(&api, &name).await.map_err(Error::request(what))?;
        }
    }
    Ok(())
}

/// The name of a StorageState is its resource's: API servers that know rules in schemas enforce it. Older ones refuse what
/// they do not know, as kubectl does on its own, so that the manifests go without.
fn with_rules(object: &DynamicObject) -> Option<DynamicObject> {
    if object.metadata.name.as_deref() != Some("storagestates.migration.k8s.io") {
        return None;
    }
    let mut ruled = object.clone();
    let schema = ruled.data.pointer_mut("/spec/versions/0/schema/openAPIV3Schema")?;
    schema["x-kubernetes-validations"] = json!([{
        "rule": "self.metadata.name == self.spec.resource.resource + (has(self.spec.resource.group) \
                 && self.spec.resource.group != '' ? '.' + self.spec.resource.group : '')",
        "message": "the name must be <resource>.<group>, or <resource> for the core group",
    }]);
    Some(ruled)
}

fn api_of(client: &Client, object: &DynamicObject, types: &TypeMeta) -> Api<DynamicObject> {
    let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn established(api: &Api<DynamicObject>, name: &str) -> kube::Result<()> {
    let deadline = tokio::time::Instant::now() + SERVED_WITHIN;
    loop {
        let definition = api.get(name).await?;
        let conditions = definition.data.pointer("/status/conditions").and_then(Value::as_array);
        let holds = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        // If it takes longer, the first request for it says so better than we could.
        if conditions.is_some_and(|all| all.iter().any(holds)) || tokio::time::Instant::now() > deadline {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(objects: &[DynamicObject]) -> Vec<String> {
        objects.iter().map(|object| object.types.clone().unwrap_or_default().kind).collect()
    }

    #[test]
    fn every_manifest_can_be_read() {
        assert_eq!(kinds(&custom_resources()), ["CustomResourceDefinition"; 2]);
        let rights =
            ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        assert_eq!(kinds(&self::rights()), rights);
        let deployment = deployment("registry.example.com/holdfast:1");
        assert_eq!(kinds(&deployment), ["Deployment"]);
        let image = deployment[0].data.pointer("/spec/template/spec/containers/0/image");
        assert_eq!(image, Some(&Value::from("registry.example.com/holdfast:1")));
    }
}
