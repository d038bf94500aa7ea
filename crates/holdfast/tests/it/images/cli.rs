//! The commands of a site, against a site that runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::origin::Origin;

use crate::images::fixture::{HOLDFAST, MIB, content, sha256};

pub struct Served {
    pub root: PathBuf,
    pub config: PathBuf,
    pub child: Child,
    pub address: String,
    pub origin: Origin,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Served {
    pub fn new(content: Vec<u8>, disks: usize) -> Self {
        Self::with(content, disks, "")
    }

    /// With more settings of `[images]`.
    pub fn with(content: Vec<u8>, disks: usize, settings: &str) -> Self {
        Self::at(content, |root| (0..disks).map(|disk| root.join(format!("disk{disk}"))).collect(), settings)
    }

    /// With these disks.
    pub fn on(content: Vec<u8>, disks: &[PathBuf]) -> Self {
        Self::at(content, |_| disks.to_vec(), "")
    }

    fn at(content: Vec<u8>, disks: impl FnOnce(&Path) -> Vec<PathBuf>, settings: &str) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("site-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let origin = Origin::start(content);
        let disks: Vec<String> = disks(&root).iter().map(|disk| disk.display().to_string()).collect();
        disks.iter().for_each(|disk| fs::create_dir_all(disk).unwrap());
        let config = root.join("holdfast.toml");
        fs::write(
            &config,
            format!(
                "[images]\nlisten = \"127.0.0.1:0\"\nstate = \"{}\"\ndisks = {disks:?}\nnode = \"here\"\nmanager-timeout = \"6s\"\n{settings}[images.manager]\ndisk-reserve = 0\ncheck-interval = \"1s\"\n[images.origin]\nallow-private-hosts = [\"{}\"]\n",
                root.join("state/state.redb").display(),
                origin.host(),
            ),
        )
        .unwrap();
        let (child, address) = Self::start(&root, &config);
        Self { root, config, child, address, origin }
    }

    fn start(root: &Path, config: &Path) -> (Child, String) {
        let log = fs::OpenOptions::new().create(true).append(true).open(root.join("site.log")).unwrap();
        let mut command = Command::new(HOLDFAST);
        command.arg("--config").arg(config).args(["image", "serve"]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(
            line.starts_with("http://127."),
            "{line:?}: {}",
            fs::read_to_string(root.join("site.log")).unwrap()
        );
        (child, line.trim().to_owned())
    }

    pub fn start_again(&mut self) {
        (self.child, self.address) = Self::start(&self.root, &self.config);
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(HOLDFAST);
        command.arg("--config").arg(&self.config).arg("image").args(arguments);
        command.env("HOLDFAST_SERVER", &self.address).output().unwrap()
    }

    #[track_caller]
    pub fn does(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    pub fn refuses(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains("hint: "), "{arguments:?} gives no way out: {said}");
        said
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["-o", "json"]);
        serde_json::from_str(&self.does(&arguments)).unwrap()
    }

    #[track_caller]
    pub fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is() {
            let log = || fs::read_to_string(self.root.join("site.log")).unwrap_or_default();
            assert!(begin.elapsed() < Duration::from_secs(120), "{what}\n{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn until_disks_are_ready(&self, count: usize) {
        self.until("the disks are ready", || {
            let disks = self.json(&["disks"]);
            let items = disks["items"].as_array().unwrap();
            items.len() == count && items.iter().all(|disk| disk["manager"]["state"] == "running")
        });
    }
}

#[test]
fn an_image_is_created_watched_exported_cleaned_up_and_removed() {
    let bytes = content(60, 9 * MIB + 1);
    let site = Served::new(bytes.clone(), 3);
    site.until_disks_are_ready(3);
    let table = site.does(&["disks"]);
    assert!(table.starts_with("UUID") && table.contains("here:"), "{table}");
    let checksum = sha256(&bytes);
    site.does(&[
        "create",
        "debian",
        "--url",
        &site.origin.url(),
        "--checksum",
        &checksum,
        "--wait",
        "--timeout",
        "2m",
    ]);
    let list = site.does(&["ls"]);
    assert!(list.contains("debian   downloaded 3/3"), "{list}");
    assert_eq!(site.does(&["ls", "-o", "name"]), "debian\n");
    assert!(site.does(&["ls", "-o", "wide"]).contains(&checksum));
    let shown = site.does(&["show", "debian"]);
    assert!(
        shown.contains("size") && shown.contains("9.0 MiB") && shown.matches("downloaded").count() >= 4,
        "{shown}"
    );
    assert_eq!(site.json(&["show", "debian"])["status"]["seal"]["sha256"], checksum);
    assert_eq!(site.origin.sent(), bytes.len() as u64, "more than one fetch for the site");
    let out = site.root.join("out.img");
    site.does(&["export", "debian", out.to_str().unwrap()]);
    assert!(fs::read(&out).unwrap() == bytes);
    site.refuses(&["export", "debian", out.to_str().unwrap()], 4);
    site.refuses(&["create", "debian", "--url", &site.origin.url()], 4);
    site.refuses(&["show", "nothing"], 3);
    site.refuses(&["cleanup", "debian", "--disk", "nowhere"], 3);
    let disks = site.json(&["disks"]);
    let disk = disks["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    site.does(&["cleanup", "debian", "--disk", &disk[..8]]);
    site.until("it is on two disks", || site.does(&["ls"]).contains("downloaded 2/2"));
    site.does(&["spread", "debian", "--all", "--wait"]);
    assert!(site.does(&["ls"]).contains("downloaded 3/3"));
    site.does(&["rm", "debian"]);
    site.until("it is gone", || site.does(&["ls", "-o", "name"]).is_empty());
    for disk in 0..3 {
        let left = fs::read_dir(site.root.join(format!("disk{disk}/backing-images"))).unwrap();
        assert_eq!(left.count(), 0, "something is left on disk {disk}");
    }
}

#[test]
fn a_file_is_uploaded_and_spread() {
    let bytes = content(61, 5 * MIB + 3);
    let site = Served::new(vec![], 2);
    site.until_disks_are_ready(2);
    let file = site.root.join("in.img");
    fs::write(&file, &bytes).unwrap();
    site.does(&["upload", "mine", file.to_str().unwrap(), "--checksum", &sha256(&bytes), "--wait"]);
    assert!(site.does(&["ls"]).contains("downloaded 2/2"));
    let out = site.root.join("out.img");
    site.does(&["export", "mine", out.to_str().unwrap()]);
    assert!(fs::read(&out).unwrap() == bytes);
    site.refuses(&["upload", "mine", "/nonexistent"], 3);
}

#[test]
fn nobody_gets_in_without_a_token_and_a_reader_only_looks() {
    let site = Served::new(vec![1; 1000], 1);
    let as_who = |token: &str, arguments: &[&str]| {
        let mut command = Command::new(HOLDFAST);
        command.arg("--config").arg(&site.config).arg("image").args(arguments);
        command.env("HOLDFAST_SERVER", &site.address).env("HOLDFAST_TOKEN", token).output().unwrap()
    };
    let reader = site.does(&["token", "create", "--read-only", "--note", "dashboard", "--expires", "1h"]);
    let reader = reader.trim();
    assert!(reader.starts_with("hft_"));
    assert!(as_who(reader, &["ls"]).status.success());
    let refused = as_who(reader, &["create", "x", "--url", "https://example.com/x"]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    let tokens = site.does(&["token", "ls"]);
    assert!(
        tokens.contains("dashboard") && tokens.contains("looking") && tokens.contains("everything"),
        "{tokens}"
    );
    assert!(!tokens.contains(reader));
    let id = reader.split('_').nth(1).unwrap();
    site.does(&["token", "rm", id]);
    assert_eq!(as_who(reader, &["ls"]).status.code(), Some(2));
    assert_eq!(as_who("hft_x", &["ls"]).status.code(), Some(2));
}

#[test]
fn a_manager_of_another_node_joins_with_a_token_and_gets_what_is_wanted_there() {
    let bytes = content(62, 4 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    let token = site.does(&["token", "create", "--join"]);
    let url = site.address.replace("http://", "https://");
    let disk = site.root.join("far");
    let start = |token: Option<&str>| {
        let mut command = Command::new(HOLDFAST);
        command.arg("--config").arg(&site.config).arg("image-manager");
        command.arg("--disk").arg(&disk).arg("--init").arg("--identity").arg(site.root.join("far-identity"));
        command.args(["--listen", "127.0.0.1:0", "--node", "far", "--join", &url, "--end-with-stdin"]);
        command.args(token.into_iter().flat_map(|token| ["--token", token]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // Without a token, nobody joins; with one that was made up neither.
    let refused = start(None).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    let made_up = token.trim().replacen(token.split('_').nth(2).unwrap(), &"0".repeat(64), 1);
    let refused = start(Some(&made_up)).output().unwrap();
    assert!(
        !refused.status.success() && text(&refused.stderr).contains("hint: "),
        "{}",
        text(&refused.stderr)
    );
    let mut manager = start(Some(token.trim())).spawn().unwrap();
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    assert!(site.does(&["ls"]).contains("downloaded 2/2"));
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    // Once it has joined, it needs no token.
    manager.kill().unwrap();
    manager.wait().unwrap();
    let mut manager = start(None).spawn().unwrap();
    site.until_disks_are_ready(2);
    site.until("what it had is known again", || site.does(&["ls"]).contains("downloaded 2/2"));
    manager.kill().unwrap();
    manager.wait().unwrap();
}

#[test]
fn an_image_that_is_not_what_was_asked_for_fails_for_good_and_is_fetched_once() {
    let bytes = content(63, 2 * MIB);
    let site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    let wrong = sha256(b"something else");
    let said =
        site.refuses(&["create", "debian", "--url", &site.origin.url(), "--checksum", &wrong, "--wait"], 4);
    assert!(said.contains("the checksum is wrong") && said.contains("holdfast image rm debian"), "{said}");
    let shown = site.json(&["show", "debian"]);
    let disks = shown["status"]["disks"].as_object().unwrap();
    let states: Vec<&str> = disks.values().filter_map(|disk| disk["state"].as_str()).collect();
    // One has tried; the other has nothing to follow any more, and may not have noticed yet.
    assert!(states.contains(&"failed") && !states.contains(&"downloaded"), "{shown}");
    // Longer than a failure is rested from that may pass.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(site.origin.sent(), bytes.len() as u64, "it was fetched again");
    site.does(&["rm", "debian"]);
    site.until("it is gone", || site.does(&["ls", "-o", "name"]).is_empty());
    site.does(&["create", "debian", "--url", &site.origin.url(), "--checksum", &sha256(&bytes), "--wait"]);
}
