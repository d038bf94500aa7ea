//! Every version of every object that a cluster goes through, in the order in which they were stored.

use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use serde_json::Value;

#[derive(Clone, Default)]
pub struct Recorder {
    seen: Arc<Mutex<Vec<(u64, Value)>>>,
}

impl Recorder {
    /// Kinds as `apps/v1`, `Deployment`. From now on.
    pub async fn start(client: &kube::Client, kinds: &[(&str, &str)]) -> Self {
        let recorder = Self::default();
        for (api_version, kind) in kinds {
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let (seen, begun) = (Arc::clone(&recorder.seen), Arc::new(tokio::sync::Notify::new()));
            let told = Arc::clone(&begun);
            tokio::spawn(async move {
                let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
                while let Some(event) = events.next().await {
                    match event {
                        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                            let revision = object.metadata.resource_version.as_deref().unwrap_or_default();
                            let revision = revision.parse().unwrap();
                            seen.lock().unwrap().push((revision, serde_json::to_value(object).unwrap()));
                        }
                        Ok(watcher::Event::InitDone) => told.notify_one(),
                        Ok(_) => {}
                        // At the end the server is gone, and every try fails at once: a task that never waits would keep the
                        // runtime from ending.
                        Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
                    }
                }
            });
            begun.notified().await;
        }
        recorder
    }

    /// When an object of this name was first so.
    pub fn first(&self, kind: &str, name: &str, so: impl Fn(&Value) -> bool) -> u64 {
        let seen = self.seen.lock().unwrap();
        let is_it =
            |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name && so(object);
        let found = seen.iter().filter(|(_, object)| is_it(object)).map(|(revision, _)| *revision).min();
        found.unwrap_or_else(|| panic!("no {kind} {name} was ever so"))
    }
}
