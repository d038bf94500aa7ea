//! What is watched between two looks, each told as it happens. A watch that breaks mends itself; that it broke is told
//! too, because an API server that was away may come back with other storage versions.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use logic::storage::{Definition, Resource, VersionHash};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tokio::sync::mpsc;

/// While the server is away, each try costs little.
const SOON: Duration = Duration::from_millis(500);
/// While it refuses, trying often helps nobody.
const LATER: Duration = Duration::from_secs(30);

/// What one watch tells.
#[derive(Debug)]
pub enum Told<K> {
    Event(Event<K>),
    /// The server could not be reached. It is tried again; what happens meanwhile is told later, or shows in the list
    /// that the watch then begins with.
    Broken,
}

/// Watches all objects of a kind, for as long as it is polled. `page` is how many are held at once in the beginning; `say`
/// makes of what is told what is sent, if anything.
pub async fn follow<K, N>(
    api: Api<K>,
    what: &'static str,
    page: u32,
    to: mpsc::Sender<N>,
    say: impl Fn(Told<K>) -> Option<N>,
) where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let tell = async |told| {
        if let Some(notice) = say(told) {
            // Whoever does not listen any more ends this too.
            let _ = to.send(notice).await;
        }
    };
    let mut events = pin!(watcher(api, watcher::Config::default().page_size(page)));
    let mut pause = SOON;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // The beginning of a list says nothing yet: the server was not asked.
                if !matches!(event, Event::Init) {
                    pause = SOON;
                }
                tell(Told::Event(event)).await;
            }
            // Too old to go on from; the list that follows tells the rest.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => {}
            Err(error) if is_refusal(&error) => {
                tracing::warn!(what, cause = %error, "it can't be watched");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LATER);
            }
            Err(error) => {
                tracing::debug!(what, cause = %error, "a watch broke");
                tell(Told::Broken).await;
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

fn is_refusal(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => match error {
            kube::Error::Api(status) => matches!(status.code, 400..=428 | 430..=499),
            kube::Error::SerdeError(_) => true,
            _ => false,
        },
        WatchError(status) => matches!(status.code, 400..=428 | 430..=499),
        NoResourceVersion => true,
    }
}

/// Defines a type that is only watched, of which little is read: schemas and annotations can be large.
macro_rules! watched {
    ($type:ty, $group:literal, $kind:literal, $plural:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = k8s_openapi::ClusterResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

/// The definition of a custom resource.
#[derive(Debug, Clone, Deserialize)]
pub struct CustomResourceDefinition {
    #[serde(deserialize_with = "in_short")]
    metadata: ObjectMeta,
    spec: DefinitionSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct DefinitionSpec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Debug, Clone, Deserialize)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    storage: bool,
}

watched!(
    CustomResourceDefinition,
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions"
);

impl CustomResourceDefinition {
    pub fn resource(&self) -> Resource {
        Resource::new(&*self.spec.group, &*self.spec.names.plural)
    }

    /// None for one without a storage version, which no API server accepts.
    pub fn definition(&self) -> Option<Definition> {
        let DefinitionSpec { group, names, versions } = &self.spec;
        let stored = versions.iter().find(|version| version.storage)?;
        Some(Definition {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            generation: self.metadata.generation.unwrap_or_default(),
            resource: self.resource(),
            hash: VersionHash::of(group, &stored.name, &names.kind),
        })
    }
}

/// Which server has a group and version.
#[derive(Debug, Clone, Deserialize)]
pub struct ApiService {
    #[serde(deserialize_with = "in_short")]
    metadata: ObjectMeta,
    spec: ApiServiceSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct ApiServiceSpec {
    /// None for what the API server has itself.
    #[serde(default)]
    service: Option<serde::de::IgnoredAny>,
}

watched!(ApiService, "apiregistration.k8s.io", "APIService", "apiservices");

impl ApiService {
    /// Whether another server has the group.
    pub fn is_aggregated(&self) -> bool {
        self.spec.service.is_some()
    }
}

/// The few fields of the metadata that matter; `managedFields` and what `kubectl apply` leaves are as large as the rest.
fn in_short<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Short {
        name: Option<String>,
        uid: Option<String>,
        generation: Option<i64>,
        resource_version: Option<String>,
    }
    let Short { name, uid, generation, resource_version } = Short::deserialize(deserializer)?;
    Ok(ObjectMeta { name, uid, generation, resource_version, ..ObjectMeta::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_definition_only_its_storage_version_is_kept() {
        let crd: CustomResourceDefinition = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "widgets.example.org", "uid": "u", "generation": 3, "annotations": {"a": "b"}},
            "spec": {
                "group": "example.org",
                "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
                "versions": [{"name": "v1", "served": true, "storage": false, "schema": {}},
                             {"name": "v2", "served": true, "storage": true}],
            },
        }))
        .unwrap();
        assert_eq!(crd.metadata.annotations, None);
        let hash = VersionHash::of("example.org", "v2", "Widget");
        let resource = Resource::new("example.org", "widgets");
        assert_eq!(crd.definition(), Some(Definition { uid: "u".into(), generation: 3, resource, hash }));
    }
}
