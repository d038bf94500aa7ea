//! A device whose data is that of a real etcd, updated by guard with the built-in migration of Kubernetes objects: killed
//! in the middle, the next boot has every stored byte in the new version.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::device::{Boot, Device, Ended, Facts};
use testkit::kube::{Cluster, Options, WIDGETS_GROUP, stored_version};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const IN_ETCD: &str = "/registry/stable.example.com/widgets/";

/// A device that ran 4.14.0 on widgets in v1, and boots 4.15.0; the definition says v2 by now.
struct Ground {
    device: Device,
    cluster: Cluster,
    widgets: usize,
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn boot(deployment: &str, version: &str, beside: &[&str]) -> Boot {
    let beside = beside.iter().map(|it| (*it).to_owned()).collect();
    Boot { deployment: deployment.to_owned(), version: version.to_owned(), beside, ..Boot::default() }
}

#[track_caller]
fn ok(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

impl Ground {
    async fn new(widgets: usize) -> Self {
        let mut device = Device::new(Path::new(HOLDFAST));
        device.boot(boot("rhel-d1", "4.14.0", &[]), false);
        ok(&device.run(Facts::Flags, &words("guard pre-run")));
        ok(&device.run(Facts::Flags, &words("guard run -- /bin/true")));
        let cluster = Cluster::with_data_in(&device.data().join("etcd"), Options::default());
        cluster.install_widgets("v1", &["v1", "v2"], None).await;
        cluster.create_widgets("v1", widgets, 20).await;
        cluster.flip_storage("v2").await;
        let line = |id: Option<u32>| {
            let text = fs::read(format!("/proc/{}/cmdline", id.unwrap())).unwrap();
            let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            words.map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        let text = format!(
            "[storage]\nwrites-at-once = 2\n[storage.offline]\netcd = {:?}\nkube-apiserver = {:?}\nkubeconfig = {:?}\nresume-within = \"0s\"\n",
            line(cluster.etcd.process_id()),
            line(cluster.server.process_id()),
            cluster.kubeconfig("admin")
        );
        let config = device.root().join("storage.toml");
        fs::write(&config, text).unwrap();
        let config = config.display().to_string();
        let command = json!([HOLDFAST, "--config", config, "storage", "migrate", "--offline"]);
        device.set("migration.command", Some(&command.to_string()));
        let mut ground = Self { device, cluster, widgets };
        ground.rest();
        ok(&ground.device.run(Facts::Flags, &words("guard healthcheck")));
        ok(&ground.device.run(Facts::Flags, &words("guard persist-system-health --healthy")));
        ground.update();
        ground
    }

    /// Boots the new deployment, the first time or once more.
    fn update(&mut self) {
        self.device.boot(boot("rhel-d2", "4.15.0", &["rhel-d1"]), false);
    }

    /// No server runs for the test.
    fn rest(&mut self) {
        self.cluster.server.terminate();
        self.cluster.etcd.stop();
    }

    /// How many objects etcd has in a version, read past every API server.
    async fn count(&self, version: &str) -> usize {
        let stored = self.cluster.etcd.get_raw(IN_ETCD).await;
        let version = format!("{WIDGETS_GROUP}/{version}");
        stored.iter().filter(|(_, bytes)| stored_version(bytes) == version).count()
    }

    /// The same, when nothing runs.
    async fn stored_as(&mut self, version: &str) -> usize {
        self.cluster.etcd.restart();
        let count = self.count(version).await;
        self.rest();
        count
    }

    /// pre-run in the middle of storing objects anew: some are, some are not.
    async fn half_way(&self) -> Child {
        let mut command = self.device.command(Facts::Flags, &words("guard pre-run"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        loop {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
            let address = self.cluster.etcd.url().trim_start_matches("http://").to_owned();
            if tokio::net::TcpStream::connect(address).await.is_ok() && self.count("v2").await > 100 {
                return child;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Until nothing works on the device's data any more.
    async fn until_quiet(&self) {
        let data = self.device.data().display().to_string();
        let works = |pid: &str| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            pid != std::process::id().to_string() && String::from_utf8_lossy(&line).contains(&data)
        };
        for _ in 0..1000 {
            let mut processes = fs::read_dir("/proc").unwrap().flatten();
            if !processes.any(|it| works(&it.file_name().to_string_lossy())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("something goes on working on the data of one that was killed");
    }

    fn version(&self) -> Value {
        serde_json::from_slice(&fs::read(self.device.data().join("version.json")).unwrap()).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_the_next_boot_begins_anew_on_the_backup_and_stores_everything_anew() {
    let mut ground = Ground::new(1500).await;
    let mut child = ground.half_way().await;
    child.kill().unwrap();
    child.wait().unwrap();
    ground.until_quiet().await;
    let version = ground.version();
    assert_eq!(
        (&version["microshift"], &version["state"]),
        (&json!("4.14.0"), &json!("migrating")),
        "{version}"
    );

    ground.update();
    let ended = ground.device.run(Facts::Flags, &words("guard pre-run"));
    ok(&ended);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("was interrupted: return to the backup it started from"), "{said}");
    ground.until_quiet().await;
    assert_eq!(ground.version()["microshift"], "4.15.0");
    assert_eq!(ground.stored_as("v2").await, ground.widgets);
}
