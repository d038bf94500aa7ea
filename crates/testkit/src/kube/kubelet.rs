//! One who plays the kubelet, and the scheduler: takes every pod, starts the command of each of its containers as a process on
//! this machine, and reports what becomes of it. ConfigMaps are laid out for those who mount them. There are no images: a container without a command runs and does nothing, and
//! one whose image begins with `missing` can't be pulled.

mod pod;
mod volume;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use self::pod::Pod;
use self::volume::Volume;
use super::api_server::ApiServer;
use super::client::Client;
use super::lock;

const LOOK: Duration = Duration::from_millis(50);
/// Looks between two at what pods have mounted: it takes a while until a change arrives there.
const REFRESH: u32 = 20;

/// What runs in the pods, by namespace, pod and container.
type Running = BTreeMap<(String, String, String), u32>;

pub struct Kubelet {
    stop: Arc<AtomicBool>,
    running: Arc<Mutex<Running>>,
    thread: Option<JoinHandle<()>>,
    directory: PathBuf,
    client: Client,
    node: String,
    version: &'static str,
}

impl Kubelet {
    /// Registers a node of this name, as `admin`, and takes every pod from now on. Logs are in the directory; every
    /// process gets the variables besides its own.
    pub fn start(server: &ApiServer, node: &str, directory: &Path, environment: &[(String, String)]) -> Self {
        std::fs::create_dir_all(directory).expect("a directory for the kubelet");
        let stop = Arc::new(AtomicBool::new(false));
        let running = Arc::new(Mutex::new(Running::new()));
        let version = server.kubernetes().kubelet_version();
        let player = Player {
            client: server.client("admin"),
            node: node.to_owned(),
            version,
            directory: directory.to_owned(),
            environment: environment.to_vec(),
            running: Arc::clone(&running),
            pods: BTreeMap::new(),
            volumes: BTreeMap::new(),
            looks: 0,
        };
        let stopped = Arc::clone(&stop);
        // A thread of its own, as starting and ending processes blocks.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(player.play(&stopped));
        });
        let (client, directory, node) = (server.client("admin"), directory.to_owned(), node.to_owned());
        Self { stop, running, thread: Some(thread), directory, client, node, version }
    }

    /// Process ids of the containers of pods whose names begin so.
    pub fn processes(&self, pod: &str) -> Vec<u32> {
        let running = lock(&self.running);
        running.iter().filter(|((_, name, _), _)| name.starts_with(pod)).map(|(_, id)| *id).collect()
    }

    /// All that pods whose names begin so have said, oldest first within each.
    pub fn said(&self, pod: &str) -> String {
        let mut logs: Vec<PathBuf> = std::fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(pod))
            .map(|entry| entry.path())
            .collect();
        logs.sort();
        let text = |path: &PathBuf| {
            format!(
                "== {}\n{}",
                path.display(),
                String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default())
            )
        };
        logs.iter().map(text).collect()
    }

    /// What the node says of itself from now on.
    pub async fn say_ready(&self, ready: bool) {
        let path = format!("/api/v1/nodes/{}/status", self.node);
        let (status, said) = self.client.patch(&path, &node_status(ready, self.version)).await;
        assert_eq!(status, 200, "{said}");
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn node_status(ready: bool, version: &str) -> Value {
    let (status, reason) = if ready { ("True", "KubeletReady") } else { ("False", "KubeletNotReady") };
    let named = ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"];
    let mut info: serde_json::Map<String, Value> =
        named.into_iter().map(|name| (name.to_owned(), json!("played"))).collect();
    for (name, value) in [
        ("kubeletVersion", version),
        ("kubeProxyVersion", version),
        ("operatingSystem", "linux"),
        ("architecture", "amd64"),
    ] {
        info.insert(name.to_owned(), json!(value));
    }
    json!({"status": {
        "conditions": [{"type": "Ready", "status": status, "reason": reason}],
        "nodeInfo": info,
        "capacity": {"pods": "500"}, "allocatable": {"pods": "500"},
    }})
}

struct Player {
    client: Client,
    node: String,
    version: &'static str,
    directory: PathBuf,
    environment: Vec<(String, String)>,
    running: Arc<Mutex<Running>>,
    /// By uid.
    pods: BTreeMap<String, Pod>,
    /// By the uid of their pod.
    volumes: BTreeMap<String, Vec<Volume>>,
    looks: u32,
}

impl Player {
    async fn play(mut self, stop: &AtomicBool) {
        let mut registered = false;
        while !stop.load(Ordering::SeqCst) {
            registered = registered || self.register().await;
            // An API server that is down for a moment is asked again.
            if let Ok((200, list)) = self.client.try_ask(reqwest::Method::GET, "/api/v1/pods", "", None).await
            {
                self.look(list["items"].as_array().cloned().unwrap_or_default()).await;
            }
            *lock(&self.running) = self.pods.values().flat_map(Pod::running).collect();
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn register(&self) -> bool {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}});
        let path = format!("/api/v1/nodes/{}", self.node);
        let merge = "application/merge-patch+json";
        for (method, path, media_type, body) in [
            (reqwest::Method::POST, "/api/v1/nodes", "application/json", node),
            (reqwest::Method::PATCH, &format!("{path}/status"), merge, node_status(true, self.version)),
            // New nodes are kept free until somebody who is not there has seen that they are ready.
            (reqwest::Method::PATCH, &path, merge, json!({"spec": {"taints": null}})),
        ] {
            match self.client.try_ask(method, path, media_type, Some(&body)).await {
                Ok((200 | 201 | 409, _)) => {}
                _ => return false,
            }
        }
        true
    }

    async fn look(&mut self, objects: Vec<Value>) {
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        // Whoever was removed without being asked is gone at once.
        self.pods.retain(|known, _| objects.iter().any(|object| uid(object) == *known));
        self.volumes.retain(|known, _| objects.iter().any(|object| uid(object) == *known));
        self.looks = self.looks.wrapping_add(1);
        for object in &objects {
            if object["spec"]["nodeName"].is_null() {
                self.bind(object).await;
                continue;
            }
            if object["spec"]["nodeName"] != self.node {
                continue;
            }
            let volumes =
                self.volumes.entry(uid(object)).or_insert_with(|| Volume::of(object, &self.directory));
            let is_new = !self.pods.contains_key(&uid(object));
            if is_new || self.looks.is_multiple_of(REFRESH) {
                let mut all_there = true;
                for volume in &mut *volumes {
                    all_there &= volume.refresh(&self.client).await;
                }
                if !all_there {
                    continue;
                }
            }
            let mounted: Vec<_> = volumes.iter().map(Volume::variable).collect();
            let pod = self.pods.entry(uid(object)).or_insert_with(|| {
                Pod::new(object, &self.directory, &[self.environment.clone(), mounted].concat())
            });
            if object["metadata"]["deletionTimestamp"].is_null() {
                pod.go_on();
                if let Some(status) = pod.news() {
                    let path = format!("{}/status", pod.path());
                    let told = self
                        .client
                        .try_ask(reqwest::Method::PATCH, &path, "application/merge-patch+json", Some(&status))
                        .await;
                    if !matches!(told, Ok((200, _))) {
                        pod.untold();
                    }
                }
            } else if pod.has_ended() {
                let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid(object)}});
                let path = pod.path();
                let _ =
                    self.client.try_ask(reqwest::Method::DELETE, &path, "application/json", Some(&now)).await;
            }
        }
    }

    async fn bind(&self, object: &Value) {
        let (namespace, name) = (&object["metadata"]["namespace"], &object["metadata"]["name"]);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        });
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/binding",
            namespace.as_str().unwrap_or_default(),
            name.as_str().unwrap_or_default()
        );
        let _ = self.client.try_ask(reqwest::Method::POST, &path, "application/json", Some(&binding)).await;
    }
}
