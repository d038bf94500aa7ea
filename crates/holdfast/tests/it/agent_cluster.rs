//! `holdfast agent run --cluster`, against a real API server: the command, its configuration and its environment. What the part
//! itself does in a cluster is in the tests of `agent`.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::kube::{Cluster, ControllerManager, Kubelet, Options};
use testkit::origin::Origin;
use testkit::registry::Scratch;
use testkit::releases::{CosignKey, Release, Releases};

const WIDGETS: &str = "widgets.stable.example.com";
const VERSION: &str = "/apis/holdfast.dev/v1alpha1/clusterversions/version";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster with releases for it, a graph that offers them, and the agent as its command.
struct Ground {
    scratch: Scratch,
    cluster: Cluster,
    key: CosignKey,
    graph: Origin,
}

impl Ground {
    /// Every release is one note, and what is said of it.
    fn new(name: &str, releases: &[(&str, Option<&Value>)]) -> Self {
        Self::on(name, Cluster::start(), releases)
    }

    fn on(name: &str, cluster: Cluster, wanted: &[(&str, Option<&Value>)]) -> Self {
        let scratch = Scratch::new(name);
        let key = CosignKey::new(&scratch.0, "p256");
        let mut releases = Releases::create(&scratch.join("releases"));
        let mut nodes = vec![json!({"version": "1.0.0", "payload": "oci:/nowhere@sha256:00"})];
        for (version, supported) in wanted {
            let note = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "default"}, "data": {"of": version}});
            let mut release = Release::new(version, &["1.0.0"]).file(
                "release-manifests/0000_10_note.yaml",
                0o644,
                note.to_string().as_bytes(),
            );
            if let Some(supported) = supported {
                let file = "release-manifests/supported-storage-versions.json";
                release = release.file(file, 0o644, supported.to_string().as_bytes());
            }
            let digest = releases.add(&release).digest;
            releases.sign_cosign(&digest, &key);
            nodes.push(json!({"version": version, "payload": releases.reference(version)}));
        }
        let edges: Vec<_> = (1..nodes.len()).map(|to| json!([0, to])).collect();
        let graph = json!({"version": 1, "nodes": nodes, "edges": edges}).to_string();
        Self { graph: Origin::start(graph.into_bytes()), scratch, cluster, key }
    }

    fn holdfast(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.env("KUBECONFIG", self.cluster.kubeconfig("admin")).stdin(Stdio::null());
        command
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.holdfast().args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Follows the graph, when this returns.
    async fn agent(&self) -> Running {
        let agent = self
            .holdfast()
            .args(["agent", "run", "--cluster", "--state"])
            .arg(self.scratch.join("agent"))
            .env("HOLDFAST_AGENT_CLUSTER__VERSION", "1.0.0")
            .env("HOLDFAST_AGENT_KEYS", format!("[{:?}]", self.key.public_file()))
            .env("HOLDFAST_AGENT_PERIOD", "300ms")
            .env("HOLDFAST_AGENT_RESERVE", "0")
            .spawn()
            .unwrap();
        let agent = Running(agent);
        self.until("the agent makes its ClusterVersion", |it| it["spec"]["clusterID"].is_string()).await;
        self.wish(&json!({"upstream": self.graph.url(), "channel": "stable"})).await;
        agent
    }

    fn storage_controller(&self) -> Running {
        let mut command = self.holdfast();
        command.args(["storage", "controller"]).env("HOLDFAST_STORAGE_LEASE", "4s");
        Running(command.spawn().unwrap())
    }

    async fn wish(&self, spec: &Value) {
        assert_eq!(self.cluster.patch(VERSION, &json!({"spec": spec})).await.0, 200);
    }

    async fn until(&self, what: &str, right: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..600 {
            if let Ok((200, value)) = self.cluster.try_ask("GET".parse().unwrap(), VERSION, "", None).await {
                if right(&value) {
                    return value;
                }
                last = value;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: {last:#}");
    }

    async fn until_completed(&self, version: &str) {
        let done = |entry: &Value| entry["version"] == version && entry["state"] == "Completed";
        self.until("the update is applied", |it| {
            it["status"]["history"].as_array().is_some_and(|all| all.iter().any(done))
        })
        .await;
        let (status, found) = self.cluster.get("/api/v1/namespaces/default/configmaps/note").await;
        assert_eq!((status, &found["data"]["of"]), (200, &json!(version)));
    }
}

fn condition<'a>(version: &'a Value, kind: &str) -> &'a Value {
    let all = version["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|it| it["type"] == kind)).unwrap_or(&Value::Null)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_is_installed_and_follows_a_cluster_version() {
    let ground = Ground::new("agent-cluster-command", &[("1.1.0", None)]);
    let image = ["--image", "r.example/holdfast:1", "--release", "1.0.0"];
    let printed = ground.done(&[&["agent", "install", "--dry-run"], &image[..]].concat());
    assert!(printed.contains("image: r.example/holdfast:1"), "{printed}");
    let installed = ground.done(&["agent", "install"]);
    assert!(installed.contains("customresourcedefinition/clusterversions.holdfast.dev"), "{installed}");
    assert!(!installed.contains("deployment/"), "{installed}");
    let with_agent = ground.done(&[&["agent", "install"], &image[..]].concat());
    assert_eq!(with_agent, format!("{installed}deployment/holdfast-agent\n"));
    let own = "/apis/apps/v1/namespaces/holdfast-system/deployments/holdfast-agent";
    let (_, deployment) = ground.cluster.get(own).await;
    assert_eq!(deployment["metadata"]["annotations"]["holdfast.dev/version"], "1.0.0");
    let half = ground.holdfast().args(["agent", "install", "--image", "x"]).output().unwrap();
    assert_eq!(half.status.code(), Some(2), "which release it is for is not said");

    let _agent = ground.agent().await;
    let offered = |it: &Value| it["status"]["availableUpdates"][0]["version"] == "1.1.0";
    ground.until("the update is offered", offered).await;
    ground.wish(&json!({"desiredUpdate": {"version": "1.1.0"}})).await;
    ground.until_completed("1.1.0").await;
}

/// What the cluster stores is looked at before the API server of a release takes over: nothing that it could not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_gate_holds_a_release_back_until_all_is_migrated() {
    let cluster = Cluster::start();
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", 20, 10).await;
    let before = Ground::on("agent-cluster-before", cluster, &[]);
    before.done(&["agent", "install"]);
    before.done(&["storage", "install"]);
    let states = || -> Vec<Value> {
        let shown: Value = serde_json::from_str(&before.done(&["storage", "status", "-o", "json"])).unwrap();
        shown["resources"].as_array().unwrap().clone()
    };
    let trigger = before.storage_controller();
    for attempt in 0.. {
        let all = states();
        if !all.is_empty() && all.iter().all(|state| state["settled"] == true) {
            break;
        }
        assert!(attempt < 600, "{all:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(trigger);
    // The next API server knows all that is stored now, but of widgets only v2.
    let supported: Vec<Value> = states()
        .iter()
        .map(|state| match state["resource"].as_str().unwrap() {
            WIDGETS => json!({"resource": WIDGETS, "versions": ["v2"]}),
            name => json!({"resource": name, "hashes": state["persisted"]}),
        })
        .collect();
    let Ground { cluster, .. } = before;
    let ground = Ground::on("agent-cluster-gate", cluster, &[("1.1.0", Some(&json!(supported)))]);
    let _agent = ground.agent().await;
    ground.wish(&json!({"desiredUpdate": {"version": "1.1.0"}})).await;
    let held = ground
        .until("it is held", |it| {
            condition(it, "Progressing")["message"].as_str().is_some_and(|it| it.contains("storage-gate: "))
        })
        .await;
    let message = condition(&held, "Progressing")["message"].as_str().unwrap();
    assert!(message.contains(WIDGETS) && message.contains("holdfast storage migrate"), "{message}");
    assert_eq!(ground.cluster.get("/api/v1/namespaces/default/configmaps/note").await.0, 404);

    ground.cluster.flip_storage("v2").await;
    let _trigger = ground.storage_controller();
    ground.until_completed("1.1.0").await;
}

const ACCOUNT: &str = "system:serviceaccount:holdfast-system:holdfast-agent";

/// What the guide has people make, and releases exchange: settings that name a key, and the key beside them. There are no mounts in
/// these pods, so it is named relative to the directory that the agent is started in.
fn configuration(file: &str, key: &CosignKey) -> Value {
    let settings = format!("[agent]\nkeys = [{file:?}]\nperiod = \"300ms\"\nreserve = 0\n");
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "holdfast-agent", "namespace": "holdfast-system", "annotations": {"holdfast.dev/agent": "true"}},
        "data": {"holdfast.toml": settings, file: String::from_utf8(key.public()).unwrap()},
    })
}

/// As `deploy/agent` has it, with this program instead of the one in the image.
fn deployment(version: &str, state: &std::path::Path) -> Value {
    let deployment = agent::cluster::install::deployment("holdfast", &version.parse().unwrap()).remove(0);
    let mut deployment = serde_json::to_value(deployment).unwrap();
    let start = format!(
        "cd $VOLUME_CONFIGURATION && exec {} --config holdfast.toml agent run --cluster --state {}/$HOLDFAST_POD",
        env!("CARGO_BIN_EXE_holdfast"),
        state.display()
    );
    let container = deployment.pointer_mut("/spec/template/spec/containers/0").unwrap();
    container["command"] = json!(["sh", "-c", start]);
    container.as_object_mut().unwrap().remove("args");
    container["env"].as_array_mut().unwrap().push(json!({"name": "OF", "value": version}));
    deployment
}

/// The agent of the release finds the new keys, and checks the same image by them: it must be signed by the old and by the new ones.
/// Where it is not, the rest of it is not applied, and the next one is for the new keys to sign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_exchanges_the_configured_keys_and_must_be_signed_by_the_old_and_the_new_ones() {
    let scratch = Scratch::new("agent-cluster-keys");
    let [old, new, newest] = [(); 3].map(|()| CosignKey::new(&scratch.0, "p256"));
    let mut releases = Releases::create(&scratch.join("releases"));
    let state = scratch.join("agents");
    let note = |version: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "default"}, "data": {"of": version}});
    let exchange = |version: &str, file: &str, key: &CosignKey| {
        [
            ("0000_00_configuration.yaml", configuration(file, key)),
            ("0000_01_agent.yaml", deployment(version, &state)),
        ]
    };
    let wanted = [
        ("1.1.0", "1.0.0", exchange("1.1.0", "new.pub", &new).to_vec(), vec![&old, &new]),
        // By those of before only: whoever publishes it has forgotten the others.
        ("1.2.0", "1.1.0", exchange("1.2.0", "newest.pub", &newest).to_vec(), vec![&new]),
        ("1.2.1", "1.1.0", vec![], vec![&new]),
        ("1.2.2", "1.1.0", vec![], vec![&newest]),
    ];
    let mut nodes = vec![json!({"version": "1.0.0", "payload": "oci:/nowhere@sha256:00"})];
    for (version, previous, files, keys) in &wanted {
        let mut release = Release::new(version, &[previous]);
        for (name, object) in files.iter().chain(&[("0000_10_note.yaml", note(version))]) {
            release =
                release.file(&format!("release-manifests/{name}"), 0o644, object.to_string().as_bytes());
        }
        let digest = releases.add(&release).digest;
        keys.iter().for_each(|key| releases.sign_cosign(&digest, key));
        nodes.push(json!({"version": version, "payload": releases.reference(version)}));
    }
    let graph = json!({"version": 1, "nodes": nodes, "edges": [[0, 1], [1, 2], [1, 3], [1, 4]]}).to_string();
    let cluster = Cluster::with(Options::rbac().user(ACCOUNT, &["system:serviceaccounts"]));
    let ground = Ground { graph: Origin::start(graph.into_bytes()), scratch, cluster, key: old };
    let _manager = ControllerManager::start(&ground.cluster.server, &ground.scratch.join("manager"));
    let environment = [("KUBECONFIG".to_owned(), ground.cluster.kubeconfig(ACCOUNT).display().to_string())];
    let kubelet =
        Kubelet::start(&ground.cluster.server, "here", &ground.scratch.join("kubelet"), &environment);

    ground.done(&["agent", "install"]);
    for (path, object) in [
        ("/api/v1/namespaces/holdfast-system/configmaps", configuration("old.pub", &ground.key)),
        ("/apis/apps/v1/namespaces/holdfast-system/deployments", deployment("1.0.0", &state)),
    ] {
        let (status, said) = ground.cluster.create(path, &object).await;
        assert_eq!(status, 201, "{said}");
    }
    ground.until("the agent makes its ClusterVersion", |it| it["spec"]["clusterID"].is_string()).await;
    ground.wish(&json!({"upstream": ground.graph.url(), "channel": "stable"})).await;
    ground.wish(&json!({"desiredUpdate": {"version": "1.1.0"}})).await;
    ground.until_completed("1.1.0").await;

    let refused = |version: &'static str| {
        move |it: &Value| {
            let last = &it["status"]["history"][0];
            last["version"] == version && last["state"] == "Refused"
        }
    };
    for version in ["1.2.0", "1.2.1"] {
        ground.wish(&json!({"desiredUpdate": {"version": version}})).await;
        let found = ground.until("it is refused", refused(version)).await;
        let why = found["status"]["history"][0]["message"].as_str().unwrap();
        assert!(why.contains("keyring newest.pub"), "{why}\n{}", kubelet.said("holdfast-agent"));
        assert_eq!(found["status"]["rollout"]["running"]["version"], "1.1.0");
        let (_, left) = ground.cluster.get("/api/v1/namespaces/default/configmaps/note").await;
        assert_eq!(left["data"]["of"], "1.1.0", "the rest of it was applied");
    }
    ground.wish(&json!({"desiredUpdate": {"version": "1.2.2"}})).await;
    ground.until_completed("1.2.2").await;
}
