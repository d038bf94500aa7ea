//! An aggregated API server: a group of its own, behind the real API server, with objects in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::https::{Https, Reply, Request, Work};
use super::{Client, Keys, lock, storage_hash};

pub const GROUP: &str = "metrics.example.com";
pub const VERSION: &str = "v1";
pub const RESOURCE: &str = "readings";
const KIND: &str = "Reading";
const SERVICE: &str = "readings";

struct Object {
    value: Value,
    /// In which version it was last written.
    stored_as: String,
}

struct State {
    /// By namespace and name.
    objects: BTreeMap<(String, String), Object>,
    stores_as: String,
    revision: u64,
    /// Method and path.
    asked: Vec<(String, String)>,
}

pub struct AggregatedServer {
    https: Https,
    state: Arc<Mutex<State>>,
    ca_bundle: String,
}

impl AggregatedServer {
    /// Stores as `v1`, until told otherwise.
    pub fn start(keys: &Keys) -> Self {
        let state =
            State { objects: BTreeMap::new(), stores_as: VERSION.to_owned(), revision: 1, asked: vec![] };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let handler = move |request: Request| {
            let reply = lock(&shared).answer(&request);
            Box::pin(async move { reply }) as Work
        };
        Self { https: Https::start(keys, Arc::new(handler)), state, ca_bundle: keys.ca_bundle() }
    }

    /// `/apis/metrics.example.com/v1`.
    pub fn group_version_path() -> String {
        format!("/apis/{GROUP}/{VERSION}")
    }

    /// Of the resource in the namespace `default`.
    pub fn path() -> String {
        format!("/apis/{GROUP}/{VERSION}/namespaces/default/{RESOURCE}")
    }

    /// Makes it part of the API server's, and waits until it is asked there.
    pub async fn register(&self, client: &Client) {
        // An external name is all that may lead to loopback: endpoints there are refused.
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self.https.port()}]},
        });
        let (status, said) = client.create("/api/v1/namespaces/default/services", &service).await;
        assert_eq!(status, 201, "{said}");
        let api_service = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{VERSION}.{GROUP}")},
            "spec": {
                "group": GROUP, "version": VERSION, "groupPriorityMinimum": 1000, "versionPriority": 10,
                "service": {"name": SERVICE, "namespace": "default", "port": self.https.port()},
                "caBundle": self.ca_bundle,
            },
        });
        let (status, said) = client.create("/apis/apiregistration.k8s.io/v1/apiservices", &api_service).await;
        assert_eq!(status, 201, "{said}");
        client.until(&Self::group_version_path(), |status, _| status == 200).await;
    }

    /// From now on connections are refused.
    pub fn down(&self) {
        self.https.down();
    }

    pub fn up(&self) {
        self.https.up();
    }

    /// What is written from now on is stored as this, and discovery says so.
    pub fn store_as(&self, version: &str) {
        lock(&self.state).stores_as = version.to_owned();
    }

    /// The hash that discovery shows.
    pub fn hash(&self) -> String {
        lock(&self.state).hash()
    }

    /// `reading-00000` and so on, stored as the version of now.
    pub fn fill(&self, count: usize) {
        let mut state = lock(&self.state);
        for number in 0..count {
            let name = format!("reading-{number:05}");
            state.store(("default".to_owned(), name), json!({"spec": {"number": number}}));
        }
    }

    /// Name and version of all that is stored.
    pub fn stored(&self) -> Vec<(String, String)> {
        let state = lock(&self.state);
        state.objects.iter().map(|((_, name), object)| (name.clone(), object.stored_as.clone())).collect()
    }

    /// Method and path, with the query, of all that was asked.
    pub fn asked(&self) -> Vec<(String, String)> {
        lock(&self.state).asked.clone()
    }
}

fn failure(code: u16, reason: &str, message: &str) -> Reply {
    Reply::json(
        code,
        &json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message,
        }),
    )
}

impl State {
    fn hash(&self) -> String {
        storage_hash(GROUP, &self.stores_as, KIND)
    }

    fn store(&mut self, key: (String, String), mut value: Value) -> Value {
        self.revision += 1;
        value["apiVersion"] = json!(format!("{GROUP}/{VERSION}"));
        value["kind"] = json!(KIND);
        value["metadata"]["namespace"] = json!(key.0);
        value["metadata"]["name"] = json!(key.1);
        value["metadata"]["uid"] = json!(format!("{}/{}", key.0, key.1));
        value["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.objects.insert(key, Object { value: value.clone(), stored_as: self.stores_as.clone() });
        value
    }

    fn answer(&mut self, request: &Request) -> Reply {
        self.asked.push((request.method.to_string(), request.path.clone()));
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let resource = match parts[..] {
            ["apis", GROUP] => return Reply::json(200, &group()),
            ["apis", GROUP, VERSION] => return Reply::json(200, &self.resources()),
            ["apis", GROUP, VERSION, ref resource @ ..] => resource,
            _ => return failure(404, "NotFound", "there is no such path"),
        };
        match (request.method.as_str(), resource) {
            ("GET", [RESOURCE]) => self.list("", query),
            ("GET", ["namespaces", namespace, RESOURCE]) => self.list(namespace, query),
            ("POST", ["namespaces", namespace, RESOURCE]) => self.write(namespace, None, &request.body),
            ("PUT", ["namespaces", namespace, RESOURCE, name]) => {
                self.write(namespace, Some(name), &request.body)
            }
            ("GET", ["namespaces", namespace, RESOURCE, name]) => {
                match self.objects.get(&((*namespace).to_owned(), (*name).to_owned())) {
                    Some(object) => Reply::json(200, &object.value),
                    None => failure(404, "NotFound", "there is no such reading"),
                }
            }
            ("DELETE", ["namespaces", namespace, RESOURCE, name]) => {
                match self.objects.remove(&((*namespace).to_owned(), (*name).to_owned())) {
                    Some(object) => Reply::json(200, &object.value),
                    None => failure(404, "NotFound", "there is no such reading"),
                }
            }
            _ => failure(405, "MethodNotAllowed", "not here"),
        }
    }

    fn write(&mut self, namespace: &str, name: Option<&str>, body: &[u8]) -> Reply {
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            return failure(400, "BadRequest", "not JSON");
        };
        let in_body = value["metadata"]["name"].as_str().unwrap_or_default();
        let key = (namespace.to_owned(), name.unwrap_or(in_body).to_owned());
        let revision = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match (self.objects.get(&key), name) {
            (Some(_), None) => return failure(409, "AlreadyExists", "there is one of that name"),
            (None, Some(_)) => return failure(404, "NotFound", "there is no such reading"),
            (Some(object), Some(_))
                if !revision.is_empty() && object.value["metadata"]["resourceVersion"] != revision =>
            {
                return failure(409, "Conflict", "somebody wrote it since");
            }
            _ => {}
        }
        let status = if name.is_some() { 200 } else { 201 };
        Reply::json(status, &self.store(key, value))
    }

    fn list(&self, namespace: &str, query: &str) -> Reply {
        let parameter = |name: &str| {
            let found =
                query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_owned()).filter(|value| !value.is_empty())
        };
        let limit = parameter("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
        let limit = limit.unwrap_or(usize::MAX);
        // A token says what the last one was.
        let after = parameter("continue").map(|token| {
            let token = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
            String::from_utf8_lossy(&token).into_owned()
        });
        let rest: Vec<_> = self
            .objects
            .iter()
            .filter(|((space, _), _)| namespace.is_empty() || space == namespace)
            .filter(|((space, name), _)| {
                after.as_ref().is_none_or(|after| format!("{space}/{name}") > *after)
            })
            .collect();
        let page = &rest[..rest.len().min(limit)];
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(((space, name), _)) = page.last()
            && page.len() < rest.len()
        {
            metadata["continue"] = json!(URL_SAFE_NO_PAD.encode(format!("{space}/{name}")));
            metadata["remainingItemCount"] = json!(rest.len() - page.len());
        }
        let items: Vec<&Value> = page.iter().map(|(_, object)| &object.value).collect();
        let kind = format!("{KIND}List");
        Reply::json(
            200,
            &json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": metadata, "items": items}),
        )
    }

    fn resources(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": format!("{GROUP}/{VERSION}"),
            "resources": [{
                "name": RESOURCE, "singularName": "reading", "namespaced": true, "kind": KIND,
                "verbs": ["create", "delete", "get", "list", "update"], "storageVersionHash": self.hash(),
            }],
        })
    }
}

fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({"apiVersion": "v1", "kind": "APIGroup", "name": GROUP, "versions": [version], "preferredVersion": version})
}
