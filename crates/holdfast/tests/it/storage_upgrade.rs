//! An appliance whose data is that of a real etcd, upgraded to a release that wants its Kubernetes objects stored anew:
//! afterwards every stored byte is in the new version; whatever goes wrong, every one is in the old.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::kube::{AdmissionWebhook, Cluster, Options, WIDGETS, WIDGETS_GROUP, stored_version};

use crate::upgrade::site::{Release, Site, Slot};

const IN_ETCD: &str = "/registry/stable.example.com/widgets/";

fn old() -> Release {
    Release::of(10)
}

fn new() -> Release {
    Release::of(20).with_data(2)
}

/// `shop`, with an etcd in its data that holds widgets in v1; the definition says v2 by now.
struct Ground {
    cluster: Cluster,
    widgets: usize,
    /// The program that the cluster's etcd runs: a path, or a name that is found in PATH.
    etcd: String,
    kubernetes: Value,
    site: Site<Slot>,
}

impl Ground {
    async fn new(widgets: usize) -> Self {
        let site = Site::new();
        site.create(&old());
        site.put("bread", "two");
        let data = site.appliance().join("state/data");
        let cluster = Cluster::with_data_in(&data.join("etcd"), Options::default());
        cluster.install_widgets("v1", &["v1", "v2"], None).await;
        cluster.create_widgets("v1", widgets, 20).await;
        cluster.flip_storage("v2").await;
        let line = |id: Option<u32>| {
            let text = fs::read(format!("/proc/{}/cmdline", id.unwrap())).unwrap();
            let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
            words.map(|word| word.replace(&data.display().to_string(), "{data}")).collect::<Vec<_>>()
        };
        let mut command = line(cluster.etcd.process_id());
        let etcd = std::mem::replace(&mut command[0], "bin/etcd".to_owned());
        let kubernetes = json!({
            "etcd": command,
            "kubeApiserver": line(cluster.server.process_id()),
            "kubeconfig": cluster.kubeconfig("admin"),
            "timeout": "10m",
        });
        let mut ground = Self { cluster, widgets, etcd, kubernetes, site };
        ground.rest();
        ground
    }

    /// Nothing but the appliance runs.
    fn rest(&mut self) {
        self.cluster.server.terminate();
        self.cluster.etcd.stop();
    }

    /// The new release, with what it says about its Kubernetes changed.
    fn release(&self, change: impl FnOnce(&mut Value)) -> String {
        let dir = self.site.release(&new());
        // The same etcd, under a name of the release.
        let etcd = Path::new(&dir).join("bin/etcd");
        fs::write(&etcd, format!("#!/bin/sh\nexec '{}' \"$@\"\n", self.etcd)).unwrap();
        fs::set_permissions(&etcd, fs::Permissions::from_mode(0o755)).unwrap();
        let path = Path::new(&dir).join("release.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["slot"]["kubernetes"] = self.kubernetes.clone();
        change(&mut manifest["slot"]["kubernetes"]);
        fs::write(path, manifest.to_string()).unwrap();
        dir
    }

    /// How many objects etcd has in a version, read past every API server.
    async fn stored_as(&mut self, version: &str) -> usize {
        self.cluster.etcd.restart();
        let count = self.count(version).await;
        self.rest();
        count
    }

    async fn count(&self, version: &str) -> usize {
        let stored = self.cluster.etcd.get_raw(IN_ETCD).await;
        let version = format!("{WIDGETS_GROUP}/{version}");
        stored.iter().filter(|(_, bytes)| stored_version(bytes) == version).count()
    }

    async fn untouched(&mut self) {
        self.site.serves(&old());
        assert_eq!(self.site.note("bread").as_deref(), Some("two"));
        let seen = self.site.inspect();
        assert_eq!((&seen["state"], &seen["dataVersion"]), (&json!("up-to-date"), &json!(1)), "{seen:#}");
        assert_eq!(self.servers(), Vec::<String>::new());
        assert_eq!(self.stored_as("v1").await, self.widgets);
    }

    async fn upgraded(&mut self) {
        self.site.serves(&new());
        assert_eq!(self.site.inspect()["dataVersion"], json!(2));
        assert_eq!(self.servers(), Vec::<String>::new());
        assert_eq!(self.stored_as("v2").await, self.widgets);
    }

    /// Command lines of etcd and kube-apiserver for this appliance.
    fn servers(&self) -> Vec<String> {
        let own = [self.site.appliance(), self.cluster.directory().to_owned()];
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
        let lines = lines.map(|line| line.replace('\0', " "));
        let server = |line: &String| {
            let program = line.split(' ').next().unwrap_or_default().to_owned();
            let name = PathBuf::from(program);
            name.file_name()
                .map(|it| it.to_string_lossy())
                .is_some_and(|it| it.starts_with("etcd") || it.starts_with("kube-apiserver"))
                && own.iter().any(|dir| line.contains(&dir.display().to_string()))
        };
        lines.filter(server).collect()
    }

    /// An upgrade in the middle of storing objects anew: some are, some are not.
    async fn half_way(&self, words: &[&str]) -> Child {
        let mut child = self.site.command(words).stderr(Stdio::null()).spawn().unwrap();
        loop {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be interrupted");
            let address = self.cluster.etcd.url().trim_start_matches("http://").to_owned();
            if tokio::net::TcpStream::connect(address).await.is_ok() && self.count("v2").await > 100 {
                return child;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_stores_every_object_anew_and_a_rollback_has_them_as_they_were() {
    let mut ground = Ground::new(300).await;
    let reference = ground.release(|_| {});
    let words = ["upgrade", "shop", "--release", &reference];
    let plan = ground.site.ok(&[&words[..], &["--dry-run"]].concat()).out;
    assert!(plan.contains("Kubernetes: every object is stored anew"), "{plan}");
    ground.untouched().await;

    ground.site.ok(&words);
    ground.upgraded().await;
    ground.site.ok(&["upgrade", "shop", "--rollback"]);
    ground.untouched().await;

    // One that is off is upgraded like any other, and stays off; a second time nothing of before is relied on.
    ground.site.ok(&["appliance", "stop", "shop"]);
    ground.site.ok(&words);
    assert_eq!(ground.site.inspect()["on"], json!(false));
    assert_eq!(ground.stored_as("v2").await, ground.widgets);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_can_not_be_stored_anew_undo_the_upgrade_and_are_named() {
    let mut ground = Ground::new(50).await;
    let upgrade = |ground: &Ground, code: i32, change: &dyn Fn(&mut Value)| {
        let reference = ground.release(change);
        ground.site.ends(&["upgrade", "shop", "--release", &reference], code).err
    };
    // A server that does not start, and one that takes too long.
    let said = upgrade(&ground, 9, &|it| {
        it["kubeApiserver"].as_array_mut().unwrap().push(json!("--no-such-flag"));
    });
    assert!(said.contains("kube-apiserver ended by itself") && said.contains("no-such-flag"), "{said}");
    ground.untouched().await;
    let said = upgrade(&ground, 9, &|it| it["timeout"] = json!("1s"));
    assert!(said.contains("did not end within 1 s"), "{said}");
    ground.untouched().await;

    // What can be known before is refused before anything is touched.
    let journal = || fs::metadata(ground.site.appliance().join("history")).map_or(0, |it| it.len());
    let before = journal();
    for (change, why) in [
        ((|it: &mut Value| it["etcd"][0] = json!("bin/no-etcd")) as fn(&mut Value), "bin/no-etcd"),
        (|it| it["kubeApiserver"] = json!([]), "both etcd and kube-apiserver"),
        (|it| it["kubeconfig"] = json!("{config.nowhere}"), "config.nowhere"),
    ] {
        let said = upgrade(&ground, 4, &change);
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(journal(), before);

    // One object that is refused.
    ground.cluster.etcd.restart();
    ground.cluster.server.restart(&[]);
    let webhook = AdmissionWebhook::start(&ground.cluster.keys);
    webhook.install(&ground.cluster, WIDGETS_GROUP, "widgets").await;
    webhook.refuse(&["widget-00007"]);
    ground.rest();
    let said = upgrade(&ground, 9, &|_| {});
    assert!(said.contains(WIDGETS) && said.contains("widget-00007"), "{said}");
    assert!(!said.contains("INFO"), "{said}");
    ground.untouched().await;
    webhook.refuse(&[]);
    upgrade(&ground, 0, &|_| {});
    ground.upgraded().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_it_is_resumed_or_undone() {
    let mut ground = Ground::new(2000).await;
    let reference = ground.release(|_| {});
    let words = ["upgrade", "shop", "--release", &reference];

    let mut child = ground.half_way(&words).await;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    ground.untouched().await;

    let mut child = ground.half_way(&words).await;
    child.kill().unwrap();
    child.wait().unwrap();
    // At once, and not when its servers are gone: that is for the program to wait for.
    ground.site.ok(&["upgrade", "shop", "--rollback"]);
    ground.untouched().await;

    let mut child = ground.half_way(&words).await;
    child.kill().unwrap();
    child.wait().unwrap();
    ground.site.ok(&["upgrade", "shop", "--resume"]);
    ground.upgraded().await;
}
