//! The manifests that are in `deploy/agent`.

use kube::api::DynamicObject;
pub use kubernetes::manifests::apply;
use kubernetes::manifests::{documents, of_image};
use semver::Version;

use super::machine::VERSION;

const CRD: &str = include_str!("../../../../deploy/agent/crd.yaml");
const RBAC: &str = include_str!("../../../../deploy/agent/rbac.yaml");
const DEPLOYMENT: &str = include_str!("../../../../deploy/agent/deployment.yaml");

/// `ClusterVersion`.
pub fn custom_resource() -> Vec<DynamicObject> {
    documents(CRD)
}

/// What the agent needs to run as: a namespace, an account, and its rights.
pub fn rights() -> Vec<DynamicObject> {
    documents(RBAC)
}

/// The agent itself, from this image, of a cluster that runs this release.
pub fn deployment(image: &str, version: &Version) -> Vec<DynamicObject> {
    let mut objects = of_image(documents(DEPLOYMENT), image);
    for object in &mut objects {
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(VERSION.to_owned(), version.to_string());
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(objects: &[DynamicObject]) -> Vec<String> {
        objects.iter().map(|object| object.types.clone().unwrap_or_default().kind).collect()
    }

    #[test]
    fn every_manifest_can_be_read_and_says_that_it_is_of_the_agent() {
        assert_eq!(kinds(&custom_resource()), ["CustomResourceDefinition"]);
        let roles =
            ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        assert_eq!(kinds(&rights()), roles);
        let deployment = deployment("registry.example.com/holdfast:1", &Version::new(1, 0, 0));
        assert_eq!(kinds(&deployment), ["Deployment"]);
        let image = deployment[0].data.pointer("/spec/template/spec/containers/0/image");
        assert_eq!(image.and_then(|image| image.as_str()), Some("registry.example.com/holdfast:1"));
        for object in [custom_resource(), rights(), deployment].concat() {
            let annotations = object.metadata.annotations.unwrap_or_default();
            assert_eq!(annotations["holdfast.dev/agent"], "true", "{:?}", object.types);
        }
    }
}
