//! A custom resource whose storage version changes when told.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Client, Conversion, storage_hash};

pub const WIDGETS_GROUP: &str = "stable.example.com";
/// The name of the CRD, and of the resource.
pub const WIDGETS: &str = "widgets.stable.example.com";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// So many at once fill the API server without making it refuse.
const AT_ONCE: usize = 32;

/// `/apis/stable.example.com/VERSION/namespaces/default/widgets`.
pub fn widgets_path(version: &str) -> String {
    format!("/apis/{WIDGETS_GROUP}/{version}/namespaces/default/widgets")
}

/// A widget with a filling of so many bytes.
pub fn widget(version: &str, name: &str, size: usize) -> Value {
    json!({
        "apiVersion": format!("{WIDGETS_GROUP}/{version}"),
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"filling": "x".repeat(size)},
    })
}

/// The definition: all versions served, one stored, any field taken.
pub fn widgets_crd(storage: &str, versions: &[&str], conversion: Option<&Conversion>) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version, "served": true, "storage": *version == storage,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }},
            })
        })
        .collect();
    let conversion = match conversion {
        None => json!({"strategy": "None"}),
        Some(conversion) => json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": conversion.url, "caBundle": conversion.ca_bundle},
        }}),
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS},
        "spec": {
            "group": WIDGETS_GROUP, "scope": "Namespaced", "versions": versions, "conversion": conversion,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        },
    })
}

impl Client {
    /// Defines widgets, and waits until they can be had and discovery shows the hash.
    pub async fn install_widgets(&self, storage: &str, versions: &[&str], conversion: Option<&Conversion>) {
        let (status, said) = self.create(CRD, &widgets_crd(storage, versions, conversion)).await;
        assert_eq!(status, 201, "{said}");
        self.until_established(WIDGETS).await;
        self.until_widgets_stored_as(storage, versions).await;
        self.until(&widgets_path(storage), |status, _| status == 200).await;
    }

    pub async fn until_established(&self, crd: &str) {
        self.until(&format!("{CRD}/{crd}"), |_, crd| {
            let conditions = crd["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|one| one["type"] == "Established" && one["status"] == "True")
        })
        .await;
    }

    /// Has widgets stored as another version from now on, and waits until discovery shows it. What is stored
    /// stays as it is.
    pub async fn flip_storage(&self, version: &str) {
        let path = format!("{CRD}/{WIDGETS}");
        let (_, mut crd) = self.get(&path).await;
        let mut names = vec![];
        for entry in crd["spec"]["versions"].as_array_mut().expect("widgets, with versions") {
            let name = entry["name"].as_str().expect("a version's name").to_owned();
            entry["storage"] = Value::Bool(name == version);
            names.push(name);
        }
        let (status, said) = self.update(&path, &crd).await;
        assert_eq!(status, 200, "{said}");
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.until_widgets_stored_as(version, &names).await;
    }

    /// Every version's document has its own copy of the hash.
    pub async fn until_widgets_stored_as(&self, storage: &str, versions: &[&str]) {
        let hash = storage_hash(WIDGETS_GROUP, storage, "Widget");
        for version in versions {
            self.until(&format!("/apis/{WIDGETS_GROUP}/{version}"), |_, document| {
                let resources = document["resources"].as_array();
                resources
                    .into_iter()
                    .flatten()
                    .any(|one| one["name"] == "widgets" && one["storageVersionHash"] == hash)
            })
            .await;
        }
    }

    /// `widget-00000` and so on, each with a filling of so many bytes; many at once.
    pub async fn create_widgets(&self, version: &str, count: usize, size: usize) {
        let mut running = JoinSet::new();
        for number in 0..count {
            if running.len() == AT_ONCE {
                running.join_next().await.expect("one that runs").expect("a widget");
            }
            let (client, version) = (self.clone(), version.to_owned());
            running.spawn(async move {
                let object = widget(&version, &format!("widget-{number:05}"), size);
                let (status, said) = client.create(&widgets_path(&version), &object).await;
                assert_eq!(status, 201, "{said}");
            });
        }
        while let Some(done) = running.join_next().await {
            done.expect("a widget");
        }
    }
}
