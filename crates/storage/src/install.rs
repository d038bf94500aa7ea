//! The manifests that are in `deploy/storage`.

use kube::Client;
use kube::api::DynamicObject;
use kubernetes::manifests::{self, RULES, documents, of_image};
use kubernetes::request::RequestError;
use serde_json::json;

const CRDS: &str = include_str!("../../../deploy/storage/crds.yaml");
const RBAC: &str = include_str!("../../../deploy/storage/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../deploy/storage/deployment.yaml");

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
    of_image(documents(DEPLOYMENT), image)
}

/// Makes the cluster have these, and waits until it serves what they define.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<(), RequestError> {
    let mut objects = objects.to_vec();
    objects.iter_mut().for_each(add_rules);
    manifests::apply(client, &objects).await
}

/// The name of a StorageState is its resource's: API servers that know rules in schemas enforce it. They are not in the file,
/// which may be applied to older ones by hand.
fn add_rules(definition: &mut DynamicObject) {
    if definition.metadata.name.as_deref() != Some("storagestates.migration.k8s.io") {
        return;
    }
    let Some(schema) = definition.data.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") else { return };
    schema[RULES] = json!([{
        "rule": "self.metadata.name == self.spec.resource.resource + (has(self.spec.resource.group) \
                 && self.spec.resource.group != '' ? '.' + self.spec.resource.group : '')",
        "message": "the name must be <resource>.<group>, or <resource> for the core group",
    }]);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
