//! A cluster with the custom resources of this part, controllers in this process, and what they write.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logic::period::Period;
use serde_json::{Value, json};
use storage::connect::Cluster as Connection;
use storage::controller::{self, Options};
use storage::install;
use storage::metrics::Metrics;
use storage::settings::Settings;
use testkit::kube::{Client, Cluster, WIDGETS_GROUP, storage_hash};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const STATES: &str = "/apis/migration.k8s.io/v1alpha1/storagestates";
pub const MIGRATIONS: &str = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations";
pub const WIDGETS: &str = "widgets.stable.example.com";

/// The trigger alone: what becomes of migrations is up to the test.
pub const TRIGGER: Options = Options { trigger: true, migrator: false, lead: false };
pub const ALL: Options = Options { trigger: true, migrator: true, lead: false };
pub const LEADING: Options = Options { trigger: true, migrator: true, lead: true };

pub async fn cluster() -> Cluster {
    cluster_with(testkit::kube::Options::default()).await
}

pub async fn cluster_with(options: testkit::kube::Options) -> Cluster {
    let cluster = Cluster::with(options);
    install(&cluster).await;
    cluster
}

/// The custom resources, and the namespace of the lease.
pub async fn install(cluster: &Cluster) {
    let connection = Connection::connect(Some(&cluster.kubeconfig("admin"))).await.unwrap();
    let client = connection.client().unwrap();
    install::apply(&client, &install::custom_resources()).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "holdfast-system"}});
    assert_eq!(cluster.create("/api/v1/namespaces", &namespace).await.0, 201);
}

/// What the manifests grant to the controller's account.
pub async fn grant(cluster: &Cluster) {
    let connection = Connection::connect(Some(&cluster.kubeconfig("admin"))).await.unwrap();
    install::apply(&connection.client().unwrap(), &install::rights()).await.unwrap();
}

pub fn settings(period: u64) -> Settings {
    Settings { period: Period::seconds(period), lease: Period::seconds(4), ..Settings::default() }
}

/// A controller in this process.
pub struct Controller {
    pub metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), storage::Error>>,
}

impl Controller {
    pub async fn start(kubeconfig: &Path, settings: &Settings, options: Options) -> Self {
        // Shown when the test fails.
        let _ = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).with_test_writer().try_init();
        let connection = Connection::connect(Some(kubeconfig)).await.unwrap();
        let metrics = Arc::new(Metrics::default());
        let stop = CancellationToken::new();
        let (counted, stopped, settings) = (Arc::clone(&metrics), stop.clone(), settings.clone());
        let task =
            tokio::spawn(
                async move { controller::run(&connection, &settings, options, counted, stopped).await },
            );
        Self { metrics, stop, task }
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it wherever it is, as when it is killed. Requests on their way may still arrive.
    pub async fn cut_off(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// The number after this name on the page of metrics.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("holdfast_storage_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    /// Until everything was looked at so many times.
    pub async fn passes(&self, count: u64) {
        until(|| self.metric("passes_total") as u64 >= count).await;
    }

    /// Until everything was looked at once more, from the beginning.
    pub async fn another_pass(&self) {
        let now = self.metric("passes_total") as u64;
        self.passes(now + 2).await;
    }
}

/// Waits for something in this process; a minute at most.
pub async fn until(right: impl Fn() -> bool) {
    for _ in 0..1200 {
        if right() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come about within a minute");
}

pub fn state_path(resource: &str) -> String {
    format!("{STATES}/{resource}")
}

pub fn persisted(state: &Value) -> Vec<&str> {
    let hashes = state["status"]["persistedStorageVersionHashes"].as_array();
    hashes.into_iter().flatten().filter_map(Value::as_str).collect()
}

pub fn current(state: &Value) -> &str {
    state["status"]["currentStorageVersionHash"].as_str().unwrap_or_default()
}

pub fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

pub fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

/// What widgets are stored as, by their version.
pub fn widget_hash(version: &str) -> String {
    storage_hash(WIDGETS_GROUP, version, "Widget")
}

/// Waits until a resource's state is so.
pub async fn until_state(client: &Client, resource: &str, persisted_in: &[&str], now: &str) -> Value {
    client
        .until(&state_path(resource), |_, state| persisted(state) == persisted_in && current(state) == now)
        .await
}

pub async fn migrations_of(client: &Client, resource: &str) -> Vec<Value> {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let all = client.list(MIGRATIONS).await;
    let right = |it: &Value| {
        let of = &it["spec"]["resource"];
        of["resource"] == plural && of["group"] == group
    };
    all.into_iter().filter(right).collect()
}

/// Waits until a resource has one migration alone, which counts for its state as it is, and is not one of `but`.
pub async fn until_migration(client: &Client, resource: &str, but: &[String]) -> Value {
    for _ in 0..600 {
        let (_, state) = client.get(&state_path(resource)).await;
        let all = migrations_of(client, resource).await;
        let counts = |it: &Value| {
            let stamp = &it["metadata"]["annotations"];
            stamp["storage.holdfast/state-uid"] == state["metadata"]["uid"]
                && stamp["storage.holdfast/change"].as_str() == Some(&state["status"]["changes"].to_string())
        };
        if let [one] = &all[..]
            && counts(one)
            && !but.contains(&uid(one))
        {
            return one.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{resource} did not get a migration of its own");
}

/// As the migrator would say it.
pub async fn succeed(client: &Client, migration: &Value) {
    let done = json!({"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}});
    let path = format!("{MIGRATIONS}/{}/status", name(migration));
    let (status, said) = client.patch(&path, &done).await;
    assert_eq!(status, 200, "{said}");
}

/// Runs a controller that can't.
pub async fn run_for_an_error(kubeconfig: &Path, settings: &Settings) -> storage::Error {
    let connection = Connection::connect(Some(kubeconfig)).await.unwrap();
    let stop = CancellationToken::new();
    controller::run(&connection, settings, LEADING, Arc::default(), stop).await.unwrap_err()
}

/// An answer of the admin port, whole.
pub async fn get_plain(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: admin\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Until there is nothing left to do.
pub async fn settle(kubeconfig: &Path) -> controller::Settled {
    let connection = Connection::connect(Some(kubeconfig)).await.unwrap();
    let (within, stop) = (Duration::from_secs(600), CancellationToken::new());
    controller::settle(&connection, &settings(600), within, Arc::default(), stop).await.unwrap()
}
