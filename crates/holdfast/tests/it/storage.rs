//! `holdfast storage` as people use it, on a real API server: what the guide says, in its order.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::kube::{
    AdmissionWebhook, Asked, Cluster, Fault, Options, Throttle, WIDGETS, WIDGETS_GROUP, stored_version,
};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const PATIENCE: Duration = Duration::from_secs(90);

struct Site {
    cluster: Cluster,
    /// Whatever is asked goes through it.
    proxy: Throttle,
    kubeconfig: PathBuf,
}

impl Site {
    fn new() -> Self {
        Self::of(Cluster::start(), "admin")
    }

    fn of(cluster: Cluster, user: &str) -> Self {
        let proxy = Throttle::start(&cluster.server);
        let kubeconfig = cluster.server.kubeconfig_to(user, &proxy.url());
        Self { cluster, proxy, kubeconfig }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(HOLDFAST);
        command.arg("storage").args(words).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Beside the test, with what it says kept.
    fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// What a command printed, which went well.
    fn done(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[words, &["-o", "json"]].concat())).unwrap()
    }

    fn state(&self, resource: &str) -> Value {
        self.json(&["status", resource])["resources"][0].clone()
    }

    /// Waits for a resource to be as it should.
    fn until(&self, resource: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let state = self.state(resource);
            if holds(&state) {
                return state;
            }
            assert!(began.elapsed() < PATIENCE, "{resource} stays {state:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn gate(&self, supported: &Value) -> (i32, String) {
        let mut command = self.command(&["gate", "--supported", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(supported.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

/// `holdfast storage controller` as a process; killed when it is dropped.
struct Controller(Child);

impl Controller {
    fn start(site: &Site, flags: &[&str]) -> Self {
        let mut command = site.command(&[&["controller"], flags].concat());
        command.env("HOLDFAST_STORAGE_LEASE", "4s").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || log.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self(child)
    }

    fn terminate(mut self) -> i32 {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.0.wait().unwrap().code().unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guide_from_install_to_gate() {
    let site = Site::new();
    // Before anything is there, the way to it is named.
    let nothing = site.run(&["status"]);
    assert_eq!(nothing.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("holdfast storage install"));
    assert!(site.done(&["install", "--dry-run", "--image", "r.example/h"]).contains("image: r.example/h"));
    let installed = site.done(&["install"]);
    assert!(installed.contains("customresourcedefinition/storagestates.migration.k8s.io"), "{installed}");
    assert_eq!(site.done(&["install"]), installed, "a second time changes nothing");

    site.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    site.cluster.create_widgets("v1", 300, 500).await;
    let port = testkit::ports::free_port();
    let admin = format!("127.0.0.1:{port}");
    let controller = Controller::start(&site, &["--admin", &admin]);
    let settled = |state: &Value| state["settled"] == true;
    let first = site.until(WIDGETS, settled);
    assert_eq!(first["migration"]["progress"]["migrated"], 300, "{first:#}");
    site.until("secrets", settled);

    let metrics = get(port, "/metrics");
    assert!(metrics.contains("holdfast_storage_objects_migrated_total"), "{metrics}");
    assert!(get(port, "/readyz").starts_with("HTTP/1.1 200"));
    let table = site.done(&["status"]);
    assert!(table.starts_with("RESOURCE"), "{table}");
    let stored_as = |table: &str| {
        let line = table.lines().find(|line| line.starts_with(WIDGETS)).map(str::to_owned);
        line.unwrap_or_default().split_whitespace().nth(1).map(str::to_owned)
    };
    assert_eq!(stored_as(&table).as_deref(), Some("v1"), "{table}");
    let hash = first["current"].as_str().unwrap();
    assert!(!table.contains(hash) && site.done(&["status", "-o", "wide"]).contains(hash), "{table}");

    // The storage version changes, and the controller is killed in the middle of what follows: the next one goes on.
    let is_put = |asked: &Asked| asked.method == "PUT" && asked.path.contains("/widgets/");
    site.proxy.plan(move |asked| match is_put(asked) {
        true => Fault::Delay(Duration::from_millis(250)),
        false => Fault::None,
    });
    site.cluster.flip_storage("v2").await;
    let migrated = |state: &Value| state["migration"]["progress"]["migrated"].as_u64().unwrap_or(0);
    let under_way =
        site.until(WIDGETS, |state| state["migration"]["phase"] == "Running" && migrated(state) > 0);
    drop(controller);
    site.proxy.heal();
    let both = json!([{"resource": WIDGETS, "versions": ["v1", "v2"]}]);
    let (code, blocked) = site.gate(&both);
    assert_eq!(code, 4, "{blocked}");
    assert!(blocked.contains("secrets"), "what the list does not name: {blocked}");
    site.proxy.forget();
    let controller = Controller::start(&site, &[]);
    let now = site.until(WIDGETS, |it| settled(it) && it["current"] != first["current"]);
    assert_eq!(now["persisted"], json!([now["current"]]));
    for (key, bytes) in site.cluster.etcd.get_raw("/registry/stable.example.com/widgets/").await {
        assert_eq!(stored_version(&bytes), "stable.example.com/v2", "{key}");
    }
    assert_eq!(now["migration"]["name"], under_way["migration"]["name"]);
    assert_eq!(migrated(&now), 300, "{now:#}");
    let left = 300 - usize::try_from(migrated(&under_way)).unwrap();
    let writes = site.proxy.count(is_put);
    assert!((1..=left).contains(&writes), "{writes} writes, with {left} left");
    let (_, blocked) = site.gate(&json!([{"resource": WIDGETS, "versions": ["v1"]}]));
    assert!(blocked.contains("which is not supported there"), "{blocked}");

    // By hand, beside a controller that leads; and without one.
    let by_hand = site.json(&["migrate", WIDGETS, "secrets"]);
    let phases: Vec<&Value> =
        by_hand["migrations"].as_array().unwrap().iter().map(|it| &it["phase"]).collect();
    assert_eq!(phases, ["Succeeded", "Succeeded"], "{by_hand:#}");
    assert_eq!(controller.terminate(), 0);
    let alone = site.json(&["migrate", WIDGETS]);
    assert_eq!(alone["migrations"][0]["progress"]["migrated"], 300, "{alone:#}");

    for (words, code, said) in [
        (["migrate", "gadgets.example.com"], 3, "gadgets.example.com"),
        (["migrate", "Gadgets"], 2, "cronjobs.batch"),
        (["status", "gadgets.example.com"], 3, "kubectl api-resources"),
        (["gate", "--supported=/nowhere"], 2, "/nowhere"),
    ] {
        let output = site.run(&words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_webhook_is_away_status_says_what_the_migration_waits_for() {
    let site = Site::new();
    site.done(&["install"]);
    site.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    site.cluster.create_widgets("v1", 20, 10).await;
    let webhook = AdmissionWebhook::start(&site.cluster.keys);
    webhook.install(&site.cluster, WIDGETS_GROUP, "widgets").await;
    webhook.down();
    let migrating = site.start(&["migrate", WIDGETS]);
    site.until(WIDGETS, |state| state["migration"]["reason"] == "ObjectsRefused");
    let table = site.done(&["status", WIDGETS]);
    let below = table.lines().last().unwrap();
    assert!(below.starts_with(WIDGETS) && below.contains("failed calling webhook"), "{table}");
    webhook.up();
    let output = migrating.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = site.done(&["status", WIDGETS]);
    assert!(table.lines().last().unwrap().contains("Succeeded"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_revoked_meanwhile_is_named_with_a_way_out() {
    let cluster = Cluster::with(Options::default().user("operator", &["system:masters"]));
    let mut site = Site::of(cluster, "operator");
    site.done(&["install"]);
    let is_put = |asked: &Asked| asked.method == "PUT" && asked.path.starts_with("/api/v1/namespaces/");
    site.proxy.plan(move |asked| match is_put(asked) {
        true => Fault::Delay(Duration::from_secs(3600)),
        false => Fault::None,
    });
    let migrating = site.start(&["migrate", "namespaces", "--timeout", "60s"]);
    site.proxy.until_asked(1, is_put).await;
    let tokens = site.cluster.directory().join("tokens.csv");
    std::fs::write(&tokens, "admin-token,admin,0,\"system:masters\"\n").unwrap();
    site.cluster.server.restart(&[&format!("--token-auth-file={}", tokens.display())]);
    let output = migrating.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains(&format!("the token in {}", site.kubeconfig.display())), "{error}");
    assert!(error.contains("renew it"), "{error}");
}

/// One plain request, answer with its head.
fn get(port: u16, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
