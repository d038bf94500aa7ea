//! A cluster that is not running: started for its migration alone, and stopped. The migration is a process of its own
//! here, this program started again, so that it can be killed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use storage::metrics::Metrics;
use storage::offline::migrate;
use storage::settings::{OfflineSettings, Settings};
use testkit::kube::{Cluster, Etcd, stored_version};
use tokio_util::sync::CancellationToken;

use crate::migrator::ground::WIDGETS_IN_ETCD;

const SETTINGS: &str = "HOLDFAST_TEST_OFFLINE";

/// Not a test: what the tests start.
#[tokio::test]
#[ignore = "started by the tests of offline migrations"]
async fn child_process_that_migrates() {
    let Ok(text) = std::env::var(SETTINGS) else { return };
    let offline: OfflineSettings = serde_json::from_str(&text).unwrap();
    let settings = Settings { writes_at_once: 2, ..Settings::default() };
    let settled =
        migrate(&offline, &settings, Arc::<Metrics>::default(), CancellationToken::new()).await.unwrap();
    assert!(
        settled.failed.is_empty() && settled.unfinished.is_empty() && settled.disputed.is_empty(),
        "{settled:?}"
    );
    assert!(settled.settled.len() > 40, "{settled:?}");
}

fn start(settings: &Value) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "migrator::offline::child_process_that_migrates", "--ignored", "--nocapture"]);
    command.env(SETTINGS, settings.to_string()).stdin(Stdio::null());
    command.spawn().unwrap()
}

/// The command line of a process.
fn command_line(id: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{id}/cmdline")).unwrap();
    text.split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// Processes with this word in their command line, other than this one.
fn running(word: &str) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        std::fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|text| {
            let words: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
            let program = words.first().and_then(|path| path.rsplit(|byte| *byte == b'/').next());
            program.is_some_and(|name| name.starts_with(b"etcd"))
                && words.iter().any(|it| String::from_utf8_lossy(it).contains(word))
        })
    })
    .collect()
}

#[tokio::test]
async fn a_cluster_that_is_not_running_is_migrated_and_gone_on_with_after_a_kill() {
    const WIDGETS: usize = 3000;
    let data = std::env::temp_dir().join(format!("holdfast-offline-{}", std::process::id()));
    let mut cluster = Cluster::with_data_in(&data, testkit::kube::Options::default());
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", WIDGETS, 20).await;
    cluster.flip_storage("v2").await;
    let kubeconfig: PathBuf = cluster.kubeconfig("admin");
    let mut settings = json!({
        "etcd": command_line(cluster.etcd.process_id().unwrap()),
        "kube-apiserver": command_line(cluster.server.process_id().unwrap()),
        "kubeconfig": kubeconfig,
    });
    cluster.server.terminate();
    cluster.etcd.stop();

    // Killed before it has begun, and in the middle.
    let migrated = |stored: &[(String, Vec<u8>)]| {
        stored.iter().filter(|(_, bytes)| stored_version(bytes) == "stable.example.com/v2").count()
    };
    let mut first = start(&settings);
    while running(&data.display().to_string()).is_empty() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before it began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = start(&settings);
    loop {
        assert!(second.try_wait().unwrap().is_none(), "it ended before it could be killed");
        if recorded(&peek(&cluster.etcd, MIGRATIONS_IN_ETCD).await).is_some_and(|(_, count)| count > 300) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    second.kill().unwrap();
    second.wait().unwrap();
    for _ in 0..1000 {
        if running(&data.display().to_string()).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(running(&data.display().to_string()).is_empty(), "it leaves nothing running");
    cluster.etcd.restart();
    let (uid, before) = recorded(&cluster.etcd.get_raw(MIGRATIONS_IN_ETCD).await).unwrap();
    cluster.etcd.stop();

    // The API server itself writes down what is asked of it.
    let (policy, log) = (cluster.directory().join("policy.yaml"), cluster.directory().join("asked.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let flags =
        [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    settings["kube-apiserver"].as_array_mut().unwrap().extend(flags.map(Value::from));
    assert!(start(&settings).wait().unwrap().success());
    assert!(running(&data.display().to_string()).is_empty());
    cluster.etcd.restart();
    let stored = cluster.etcd.get_raw(WIDGETS_IN_ETCD).await;
    assert_eq!((stored.len(), migrated(&stored)), (WIDGETS, WIDGETS));
    let (same, count) = recorded(&cluster.etcd.get_raw(MIGRATIONS_IN_ETCD).await).unwrap();
    assert_eq!((same, count), (uid, WIDGETS), "it is the migration of before that has ended");
    let asked = std::fs::read_to_string(&log).unwrap();
    let puts = asked.lines().filter(|line| line.contains("\"verb\":\"update\"")).count();
    assert_eq!(puts, WIDGETS - before, "what was recorded is not done again");
    drop(cluster);
    std::fs::remove_dir_all(&data).unwrap();
}

const MIGRATIONS_IN_ETCD: &str =
    "/registry/migration.k8s.io/storageversionmigrations/widgets.stable.example.com-";

/// Every request for a widget, once.
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    resources: [{group: stable.example.com, resources: [widgets]}]
  - level: None
";

/// The uid of the one migration, and how many objects it says are done, so that nobody need do them again.
fn recorded(stored: &[(String, Vec<u8>)]) -> Option<(String, usize)> {
    let [(_, bytes)] = stored else { return None };
    let migration: Value = serde_json::from_slice(bytes).unwrap();
    let count = migration["status"]["progress"]["migrated"].as_u64()?;
    Some((migration["metadata"]["uid"].as_str()?.to_owned(), usize::try_from(count).unwrap()))
}

/// What etcd has, or nothing while it is not up.
async fn peek(etcd: &Etcd, prefix: &str) -> Vec<(String, Vec<u8>)> {
    let address = etcd.url();
    let address = address.trim_start_matches("http://");
    match tokio::net::TcpStream::connect(address).await {
        Ok(_) => etcd.get_raw(prefix).await,
        Err(_) => vec![],
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_is_named_with_its_last_words() {
    let offline = OfflineSettings {
        etcd: ["sh", "-c", "echo the disk is full >&2; exit 3"].map(str::to_owned).to_vec(),
        kube_apiserver: vec!["true".to_owned()],
        kubeconfig: "/nowhere".into(),
        ready_within: logic::period::Period::seconds(1),
        resume_within: logic::period::Period::seconds(60),
    };
    let error =
        migrate(&offline, &Settings::default(), Arc::default(), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().starts_with("etcd ended by itself: exit status: 3"), "{error}");
    let words = std::error::Error::source(&error).unwrap().to_string();
    assert!(words.contains("the disk is full"), "{words}");
}

#[tokio::test]
async fn one_that_is_stopped_early_says_so_and_does_not_pass_for_done() {
    let idle = ["sleep", "60"].map(str::to_owned).to_vec();
    let offline = OfflineSettings {
        etcd: idle.clone(),
        kube_apiserver: idle,
        kubeconfig: "/nowhere".into(),
        ready_within: logic::period::Period::seconds(60),
        resume_within: logic::period::Period::seconds(60),
    };
    // Before etcd is up, and before the API server is.
    for after in [Duration::ZERO, Duration::from_millis(1500)] {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            stopped.cancel();
        });
        let error = migrate(&offline, &Settings::default(), Arc::default(), stop).await.unwrap_err();
        assert_eq!(error.exit(), logic::exit::Exit::Interrupted, "{error}");
    }
}
