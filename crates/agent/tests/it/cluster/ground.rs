//! A cluster with an agent in it, releases that it may go to, and a graph that says so.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use agent::cluster::install;
use serde_json::{Value, json};
use testkit::kube::{Cluster, ControllerManager, Kubelet, Options};
use testkit::registry::Scratch;
use testkit::releases::{CosignKey, Release, Releases};

use crate::cluster::pod;

pub const ACCOUNT: &str = "system:serviceaccount:holdfast-system:holdfast-agent";
pub const VERSION: &str = "/apis/holdfast.dev/v1alpha1/clusterversions/version";

pub struct Ground {
    // In this order they go.
    pub kubelet: Kubelet,
    _manager: ControllerManager,
    pub cluster: Cluster,
    releases: Releases,
    key: Arc<CosignKey>,
    graph: Arc<Mutex<Value>>,
    scratch: Scratch,
}

/// A manifest of a release: its file and what is in it.
pub type File = (&'static str, Value);

/// A release, and who signs it.
pub struct Published<'a> {
    pub version: &'a str,
    pub follows: &'a str,
    pub files: &'a [File],
    /// What it brings as `release-keys/vendor.pub`.
    pub keys: Option<Vec<u8>>,
    pub signed_by: &'a [&'a CosignKey],
}

impl<'a> Published<'a> {
    pub fn of(version: &'a str, follows: &'a str, signed_by: &'a [&'a CosignKey]) -> Self {
        Self { version, follows, files: &[], keys: None, signed_by }
    }
}

impl Ground {
    /// Release 1.0.0 is installed, which is the agent and nothing else.
    pub async fn start(patience: &str) -> Self {
        let scratch = Scratch::new("agent-cluster");
        let key = Arc::new(CosignKey::new(&scratch.0, "p256"));
        let graph =
            Arc::new(Mutex::new(json!({"version": 1, "nodes": [], "edges": [], "conditionalEdges": []})));
        let upstream = serve(Arc::clone(&graph));
        let cluster = Cluster::with(Options::rbac().user(ACCOUNT, &["system:serviceaccounts"]));
        let manager = ControllerManager::start(&cluster.server, &scratch.join("manager"));
        let environment = [
            ("KUBECONFIG", cluster.kubeconfig(ACCOUNT).display().to_string()),
            ("AGENT_DIRECTORY", scratch.join("agents").display().to_string()),
            ("AGENT_KEYS", key.public_file().display().to_string()),
            ("AGENT_PATIENCE", patience.to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        let kubelet = Kubelet::start(&cluster.server, "here", &scratch.join("kubelet"), &environment);
        let releases = Releases::create(&scratch.join("releases"));
        let ground = Self { kubelet, _manager: manager, cluster, releases, key, graph, scratch };
        ground.node("1.0.0", "oci:/nowhere@sha256:00");
        ground.install(&upstream).await;
        ground
    }

    async fn install(&self, upstream: &str) {
        let installed = [install::custom_resource(), install::rights()].concat();
        let installed = installed.into_iter().map(|object| serde_json::to_value(object).unwrap());
        for object in installed.chain([agent("1.0.0")]) {
            let (status, said) = self.cluster.create(&collection(&object), &object).await;
            assert!(matches!(status, 201 | 409), "{status}: {said}");
        }
        self.until(VERSION, |it| it["spec"]["clusterID"].is_string()).await;
        self.wish(&json!({"upstream": upstream, "channel": "stable"})).await;
    }

    fn node(&self, version: &str, image: &str) -> usize {
        let mut graph = self.graph.lock().unwrap();
        let nodes = graph["nodes"].as_array_mut().unwrap();
        nodes.push(json!({"version": version, "payload": image, "metadata": {"url": format!("https://example.com/{version}")}}));
        nodes.len() - 1
    }

    /// Signed, and in the graph, from 1.0.0.
    pub fn publish(&mut self, version: &str, files: &[File]) {
        let number = self.publish_unoffered(version, files);
        self.graph.lock().unwrap()["edges"].as_array_mut().unwrap().push(json!([0, number]));
    }

    /// The same, with a risk that concerns every cluster.
    pub fn publish_with_a_risk(&mut self, version: &str, files: &[File]) {
        self.publish_unoffered(version, files);
        let risk = json!({"name": "SlowDisks", "message": "disks are slow", "url": "https://example.com/slow", "matchingRules": [{"type": "Always"}]});
        let edge = json!({"edges": [{"from": "1.0.0", "to": version}], "risks": [risk]});
        self.graph.lock().unwrap()["conditionalEdges"].as_array_mut().unwrap().push(edge);
    }

    fn publish_unoffered(&mut self, version: &str, files: &[File]) -> usize {
        let key = self.configured_key();
        self.add(&Published { files, ..Published::of(version, "1.0.0", &[&key]) })
    }

    fn add(&mut self, published: &Published<'_>) -> usize {
        let version = published.version;
        let mut release = Release::new(version, &[published.follows]);
        for (name, content) in published.files {
            let text = content.to_string();
            release = release.file(&format!("release-manifests/{name}"), 0o644, text.as_bytes());
        }
        if let Some(keys) = &published.keys {
            release = release.file("release-keys/vendor.pub", 0o644, keys);
        }
        self.releases.add(&release);
        for key in published.signed_by {
            self.sign(version, key);
        }
        self.node(version, &self.releases.reference(version))
    }

    /// In the graph, from the one that it follows.
    pub fn publish_as(&mut self, published: &Published<'_>) {
        let number = self.add(published);
        let mut graph = self.graph.lock().unwrap();
        let from =
            graph["nodes"].as_array().unwrap().iter().position(|it| it["version"] == published.follows);
        graph["edges"].as_array_mut().unwrap().push(json!([from.unwrap(), number]));
    }

    pub fn sign(&mut self, version: &str, key: &CosignKey) {
        let digest = self.releases.get(version).digest.clone();
        self.releases.sign_cosign(&digest, key);
    }

    /// Of whom the agents are told.
    pub fn configured_key(&self) -> Arc<CosignKey> {
        Arc::clone(&self.key)
    }

    pub fn another_key(&self) -> CosignKey {
        CosignKey::new(&self.scratch.0, "p256")
    }

    /// Of what was refused: neither in the cluster nor in the quarantine of an agent. That of one that was replaced goes with its pod.
    pub async fn nothing_left(&self, version: &Value) {
        assert!(version["status"]["rollout"]["under"].is_null(), "{version:#}");
        for _ in 0..600 {
            let pods = self.cluster.list("/api/v1/namespaces/holdfast-system/pods").await;
            let names = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str());
            let quarantines = names.map(|name| self.scratch.join("agents").join(name).join("quarantine"));
            if quarantines.flat_map(|it| std::fs::read_dir(it).into_iter().flatten()).count() == 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        panic!("something is left in quarantine");
    }

    pub fn reference(&self, version: &str) -> String {
        self.releases.reference(version)
    }

    pub async fn wish(&self, spec: &Value) {
        let (status, said) = self.cluster.patch(VERSION, &json!({"spec": spec})).await;
        assert_eq!(status, 200, "{said}");
    }

    /// A person asks for it.
    pub async fn ask_for(&self, version: &str) {
        self.wish(&json!({"desiredUpdate": {"version": version}})).await;
    }

    /// And once more.
    pub async fn ask_again_for(&self, version: &str) {
        self.wish(&json!({"desiredUpdate": {"version": version, "request": "again"}})).await;
    }

    /// The object, as soon as it is so. Says what the agents said where it never is.
    pub async fn until(&self, path: &str, right: impl Fn(&Value) -> bool) -> Value {
        // Far more than it takes: this is for a busy machine.
        for _ in 0..1200 {
            if let Ok((200, value)) = self.cluster.try_ask("GET".parse().unwrap(), path, "", None).await
                && right(&value)
            {
                return value;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let (_, version) = self.cluster.get(VERSION).await;
        let (status, value) = self.cluster.get(path).await;
        let said = self.kubelet.said("holdfast-agent");
        panic!("{path} does not become what it should: {status}: {value}\n{said}\n{:#}", version["status"]);
    }

    /// The newest entry of the history, when it is in this state.
    pub async fn until_history(&self, version: &str, state: &str) -> Value {
        let is_it = |entry: &Value| entry["version"] == version && entry["state"] == state;
        self.until(VERSION, |it| it["status"]["history"].as_array().is_some_and(|all| all.iter().any(is_it)))
            .await
    }

    pub async fn until_failing(&self, with: &str) -> Value {
        let says = |it: &Value| {
            it["type"] == "Failing"
                && it["status"] == "True"
                && it["message"].as_str().is_some_and(|said| said.contains(with))
        };
        self.until(VERSION, |it| {
            it["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(says))
        })
        .await
    }

    pub async fn is_there(&self, path: &str) -> bool {
        self.cluster.get(path).await.0 == 200
    }

    /// A place that a program in a pod may look at.
    pub fn flag(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }
}

/// Of a ClusterVersion.
pub fn condition<'a>(version: &'a Value, kind: &str) -> &'a Value {
    let all = version["status"]["conditions"].as_array().unwrap();
    all.iter().find(|it| it["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {all:?}"))
}

/// Where objects of its kind are made.
fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    }
}

/// The agent's own Deployment, as `deploy/agent` has it, with this program instead of the one in the image.
pub fn agent(version: &str) -> Value {
    let deployment = install::deployment("holdfast", &version.parse().unwrap()).remove(0);
    let mut deployment = serde_json::to_value(deployment).unwrap();
    let container = deployment.pointer_mut("/spec/template/spec/containers/0").unwrap();
    container["command"] = json!(pod::command());
    container.as_object_mut().unwrap().remove("args");
    container["env"].as_array_mut().unwrap().push(json!({"name": "AGENT_RELEASE", "value": version}));
    deployment
}

pub fn note(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"said": name}})
}

pub fn note_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

/// One whose pods come up when there is a file.
pub fn waiting_for(name: &str, file: &Path) -> Value {
    workload("Deployment", name, &["sh", "-c", &format!("test -e {} && exec sleep 1000", file.display())])
}

/// A Deployment, a StatefulSet or a DaemonSet that runs a command.
pub fn workload(kind: &str, name: &str, command: &[&str]) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "it", "image": "it", "command": command}]},
            },
        },
    });
    if kind == "StatefulSet" {
        workload["spec"]["serviceName"] = json!(name);
    }
    workload
}

/// Answers every question with the graph; says where.
fn serve(graph: Arc<Mutex<Value>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (mut asked, mut buffer) = (vec![], [0; 4096]);
            while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(length) => asked.extend_from_slice(&buffer[..length]),
                }
            }
            let body = graph.lock().unwrap().to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    format!("http://{address}")
}
