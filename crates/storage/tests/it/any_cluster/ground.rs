//! A namespace and a custom resource of which nobody else knows, gone with the test.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use serde_json::{Value, json};
use storage::Client;
use storage::api::StorageVersionMigration;
use storage::metrics::Metrics;
use storage::migrator::{Ended, Migrator};
use storage::settings::Settings;
use testkit::kube::AnyCluster;
use testkit::kube::any::unique;
use tokio_util::sync::CancellationToken;

const MIGRATIONS: &str = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub struct Ground {
    client: Client,
    pub cluster: AnyCluster,
    /// Of the namespace, and of everything else.
    pub name: String,
    group: String,
}

impl Ground {
    /// With so many things, which are stored as `v1` and to be stored as `v2`.
    pub async fn new(things: usize) -> Self {
        let cluster = AnyCluster::find();
        let connection = storage::connect::Cluster::connect(cluster.kubeconfig()).await.unwrap();
        let client = connection.client().unwrap();
        let name = unique();
        let ground = Self { client, cluster, group: format!("{name}.holdfast.example.com"), name };
        // They may be there already, and be somebody else's: then they stay as they are.
        if ground.get(MIGRATIONS).await.0 != 200 {
            let all = storage::install::custom_resources();
            storage::install::apply(&ground.client, &all).await.unwrap();
            ground.until(MIGRATIONS, |status, _| status == 200).await;
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ground.name}});
        ground.create("/api/v1/namespaces", &namespace).await;
        ground.create(DEFINITIONS, &ground.definition("v1")).await;
        ground.until(&ground.things("v1"), |status, _| status == 200).await;
        for number in 0..things {
            let thing = json!({"apiVersion": format!("{}/v1", ground.group), "kind": "Thing",
                "metadata": {"name": format!("thing-{number:03}")}, "spec": {"number": number}});
            ground.create(&ground.things("v1"), &thing).await;
        }
        ground
            .patch_definition(&json!({"spec": {"versions": ground.definition("v2")["spec"]["versions"]}}))
            .await;
        ground
    }

    fn definition(&self, stored: &str) -> Value {
        let version = |name: &str| {
            json!({"name": name, "served": true, "storage": name == stored,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"number": {"type": "integer"}}}}}}})
        };
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": self.definition_name()},
            "spec": {"group": self.group, "scope": "Namespaced", "versions": [version("v1"), version("v2")],
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}}})
    }

    fn definition_name(&self) -> String {
        format!("things.{}", self.group)
    }

    /// From now on, a thing's number may not be larger.
    pub async fn limit_numbers(&self, most: usize) {
        let mut versions = self.definition("v2")["spec"]["versions"].take();
        for version in versions.as_array_mut().unwrap() {
            let number =
                &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["number"];
            number["maximum"] = json!(most);
            // Newer API servers accept an unchanged value that a new limit forbids. A rule about the change itself always holds.
            let rule = format!("self <= {most} && oldSelf >= 0");
            number["x-kubernetes-validations"] = json!([{"rule": rule}]);
        }
        self.patch_definition(&json!({"spec": {"versions": versions}})).await;
        // Until it holds.
        let path = format!("{}?dryRun=All", self.things("v1"));
        let large = json!({"apiVersion": format!("{}/v1", self.group), "kind": "Thing",
            "metadata": {"name": "large"}, "spec": {"number": most + 1}});
        while self.ask(Method::POST, &path, Some(&large)).await.0 != 422 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn patch_definition(&self, patch: &Value) {
        let (status, said) =
            self.ask(Method::PATCH, &format!("{DEFINITIONS}/{}", self.definition_name()), Some(patch)).await;
        assert_eq!(status, 200, "{said}");
    }

    pub fn things(&self, version: &str) -> String {
        format!("/apis/{}/{version}/namespaces/{}/things", self.group, self.name)
    }

    pub async fn stored_versions(&self) -> Value {
        let (_, definition) = self.get(&format!("{DEFINITIONS}/{}", self.definition_name())).await;
        definition["status"]["storedVersions"].clone()
    }

    pub async fn ask_for_migration(&self) -> StorageVersionMigration {
        let migration = json!({"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
            "metadata": {"name": self.name},
            "spec": {"resource": {"group": self.group, "version": "v1", "resource": "things"}}});
        self.create(MIGRATIONS, &migration).await;
        self.migration().await
    }

    pub fn migration_path(&self) -> String {
        format!("{MIGRATIONS}/{}", self.name)
    }

    pub async fn migration(&self) -> StorageVersionMigration {
        serde_json::from_value(self.get(&self.migration_path()).await.1).unwrap()
    }

    pub async fn run(&self, migration: StorageVersionMigration, stop: CancellationToken) -> Ended {
        let settings = Settings { tries: 2, ..Settings::default() };
        Migrator::new(self.client.clone(), &settings, Arc::<Metrics>::default()).run(migration, stop).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, None).await
    }

    async fn create(&self, path: &str, object: &Value) {
        let (status, said) = self.ask(Method::POST, path, Some(object)).await;
        assert_eq!(status, 201, "{path}: {said}");
    }

    pub async fn delete(&self, path: &str) {
        self.ask(Method::DELETE, path, None).await;
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        ask(&self.client, method, path, body).await
    }

    pub async fn until(&self, path: &str, right: impl Fn(u16, &Value) -> bool) -> Value {
        for _ in 0..1200 {
            let (status, value) = self.get(path).await;
            if right(status, &value) {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{path} does not become what it should: {:?}", self.get(path).await);
    }
}

/// The status, and what came with it.
async fn ask(client: &Client, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
    let media_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let created = method == Method::POST;
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let request = request.body(body.map(|body| body.to_string().into_bytes()).unwrap_or_default()).unwrap();
    match client.request::<Value>(request).await {
        Ok(value) => (if created { 201 } else { 200 }, value),
        Err(kube::Error::Api(status)) => (status.code, Value::String(status.message.clone())),
        Err(error) => (0, Value::String(error.to_string())),
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let paths = [
            self.migration_path(),
            format!("{DEFINITIONS}/{}", self.definition_name()),
            format!("/api/v1/namespaces/{}", self.name),
        ];
        let kubeconfig = self.cluster.kubeconfig().map(std::path::Path::to_owned);
        // The test's own runtime can't be waited for here.
        let cleaning = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let connection = storage::connect::Cluster::connect(kubeconfig.as_deref()).await.unwrap();
                let client = connection.client().unwrap();
                for path in paths {
                    ask(&client, Method::DELETE, &path, None).await;
                }
            });
        });
        let _ = cleaning.join();
    }
}
