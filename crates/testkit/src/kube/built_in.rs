//! Built-in resources whose storage version depends on the flags of the API server.

use serde_json::{Value, json};

use super::{Client, Kubernetes, Options, storage_hash};

/// A built-in resource that one set of flags stores in one version, and another set in another.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// The version of Kubernetes that has it.
    pub kubernetes: Kubernetes,
    /// Plural and group: `ingresses.extensions`.
    pub resource: &'static str,
    /// The version that is used to read and write the objects.
    version: &'static str,
    kind: &'static str,
    /// Group and version of stored objects without further flags.
    pub stored: &'static str,
    /// Group and version of stored objects with `other_flags`.
    pub stored_otherwise: &'static str,
    pub other_flags: &'static [&'static str],
    /// The prefix of its keys in etcd.
    pub in_etcd: &'static str,
    spec: fn() -> Value,
}

/// An API server stores what the oldest API server that it must be compatible with can read. `v1` is of 1.34.
pub const CLAIM_TEMPLATES: BuiltIn = BuiltIn {
    kubernetes: Kubernetes::V1_36,
    resource: "resourceclaimtemplates.resource.k8s.io",
    version: "v1",
    kind: "ResourceClaimTemplate",
    stored: "resource.k8s.io/v1",
    stored_otherwise: "resource.k8s.io/v1beta2",
    other_flags: &["--emulated-version=1.36", "--min-compatibility-version=1.33"],
    in_etcd: "/registry/resourceclaimtemplates/",
    spec: || json!({"spec": {}}),
};

/// Ingresses are served by two groups, and stored in one of both.
pub const INGRESSES: BuiltIn = BuiltIn {
    kubernetes: Kubernetes::V1_20,
    resource: "ingresses.extensions",
    version: "v1beta1",
    kind: "Ingress",
    stored: "networking.k8s.io/v1beta1",
    stored_otherwise: "extensions/v1beta1",
    other_flags: &[
        "--runtime-config=networking.k8s.io/v1=false,networking.k8s.io/v1beta1=false",
        "--disable-admission-plugins=DefaultIngressClass",
    ],
    in_etcd: "/registry/ingress/",
    spec: || json!({"backend": {"serviceName": "somewhere", "servicePort": 80}}),
};

impl BuiltIn {
    pub fn plural(&self) -> &'static str {
        self.resource.split_once('.').expect("a plural and a group").0
    }

    pub fn group(&self) -> &'static str {
        self.resource.split_once('.').expect("a plural and a group").1
    }

    /// Path of the document of discovery.
    pub fn group_version_path(&self) -> String {
        format!("/apis/{}/{}", self.group(), self.version)
    }

    /// Path of the objects in the namespace `default`.
    pub fn path(&self) -> String {
        format!("{}/namespaces/default/{}", self.group_version_path(), self.plural())
    }

    /// Options of an API server that stores it as `stored`.
    pub fn options(&self) -> Options {
        Options::of(self.kubernetes)
    }

    /// Options of an API server that stores it as `stored_otherwise`.
    pub fn other_options(&self) -> Options {
        self.other_flags.iter().fold(self.options(), |options, flag| options.flag(flag))
    }

    /// Storage version hash without further flags.
    pub fn hash(&self) -> String {
        self.hash_of(self.stored)
    }

    /// Storage version hash with `other_flags`.
    pub fn other_hash(&self) -> String {
        self.hash_of(self.stored_otherwise)
    }

    fn hash_of(&self, group_version: &str) -> String {
        let (group, version) = group_version.split_once('/').expect("a group and a version");
        storage_hash(group, version, self.kind)
    }

    pub async fn create(&self, client: &Client, name: &str) {
        let object = json!({
            "apiVersion": format!("{}/{}", self.group(), self.version), "kind": self.kind,
            "metadata": {"name": name}, "spec": (self.spec)(),
        });
        let (status, answer) = client.create(&self.path(), &object).await;
        assert_eq!(status, 201, "{answer}");
    }
}
