//! A small graph, a service that serves it, a client that asks.

use std::path::PathBuf;
use std::sync::Once;
use std::time::Instant;

use graph::current::{Current, Snapshot};
use graph::serve::{Handle, Service};
use graph::settings::Settings;
use logic::graph::document::Document;
use logic::graph::{GraphData, build};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Served {
    pub url: String,
    pub admin: Option<String>,
    pub current: Current,
    pub handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl Served {
    pub async fn start(settings: Settings, current: Current) -> Self {
        let service = Service::bind(settings, current.clone()).await.unwrap();
        let scheme = if service.handle().settings().tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{}", service.address().unwrap().port());
        let admin = service.admin_address().map(|address| format!("http://{address}"));
        let (stop, stopped) = oneshot::channel::<()>();
        let handle = service.handle();
        let running = tokio::spawn(service.run(async {
            let _ = stopped.await;
        }));
        let served = Self { url, admin, current, handle, stop: Some(stop), running };
        served.handle.refreshed().await;
        served
    }

    pub async fn with(settings: Settings, snapshot: Snapshot) -> Self {
        let current = Current::default();
        current.publish(snapshot);
        Self::start(settings, current).await
    }

    /// The small graph with everything as it comes.
    pub async fn small() -> Self {
        Self::with(settings(), small()).await
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        client().get(format!("{}{path}", self.url)).send().await.unwrap()
    }

    pub async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    pub async fn versions(&self, path: &str) -> Vec<String> {
        versions(&self.json(path).await)
    }

    pub async fn error(&self, path: &str) -> (u16, String, String) {
        let response = self.get(path).await;
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        (status, text("kind"), text("value"))
    }

    pub async fn metric(&self, name: &str) -> u64 {
        let base = self.admin.as_ref().unwrap_or(&self.url);
        let page = client().get(format!("{base}/metrics")).send().await.unwrap().text().await.unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("holdfast_graph_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    }

    pub fn begin_stop(&mut self) {
        self.stop.take();
    }

    pub async fn stop(mut self) {
        self.begin_stop();
        self.running.await.unwrap();
    }
}

pub fn client() -> reqwest::Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// On any port of this machine.
pub fn settings() -> Settings {
    Settings { listen: ([127, 0, 0, 1], 0).into(), ..Settings::default() }
}

pub fn versions(graph: &Value) -> Vec<String> {
    let nodes = graph["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["version"].as_str().unwrap().to_owned()).collect()
}

pub const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// On two architectures: 1.0.0 → 1.1.0 → 1.2.0, 1.0.0 → 1.2.0 under a risk, and 1.3.0, which only `fast-1` has.
pub fn small_document() -> Value {
    let mut nodes = vec![];
    let mut edges = vec![];
    let mut risky = vec![];
    for arch in ["amd64", "arm64"] {
        let first = nodes.len();
        for (patch, channels) in [
            ("1.0.0", "stable,fast-1"),
            ("1.1.0", "stable,fast-1"),
            ("1.2.0", "stable,fast-1"),
            ("1.3.0", "fast-1"),
        ] {
            nodes.push(json!({
                "version": format!("{patch}+{arch}"),
                "payload": format!("quay.example.com/p@sha256:{:064x}", nodes.len()),
                "metadata": { CHANNELS: channels, "url": format!("https://example.com/{patch}") },
            }));
        }
        edges.extend([[first, first + 1], [first + 1, first + 2], [first + 2, first + 3]]);
        risky.push(json!({ "from": format!("1.0.0+{arch}"), "to": format!("1.2.0+{arch}") }));
    }
    let risk = json!({
        "url": "https://example.com/risk", "name": "Risky", "message": "careful",
        "matchingRules": [{ "type": "Always" }],
    });
    json!({
        "version": 1, "nodes": nodes, "edges": edges,
        "conditionalEdges": [{ "edges": risky, "risks": [risk] }],
    })
}

pub fn small() -> Snapshot {
    snapshot(small_document())
}

pub fn snapshot(document: Value) -> Snapshot {
    let document: Document = serde_json::from_value(document).unwrap();
    let (graph, notes) = build(document.harvest(0).unwrap(), &GraphData::default());
    Snapshot { graph, notes, confirmed: Instant::now().into() }
}

/// A directory of its own, gone at the end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("holdfast-serve-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
