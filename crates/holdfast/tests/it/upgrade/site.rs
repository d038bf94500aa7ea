//! A machine with appliances, through the binary alone: what a person types and what a program asks over HTTP.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use disk::Lock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use testkit::programs;
use testkit::vm::{Answer, ask};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(180);

/// What a release is to be like.
#[derive(Debug, Clone)]
pub struct Release {
    pub build: u64,
    /// The version of its data; migrations lead to each above 1.
    pub data: u32,
    pub never_ready: bool,
    /// Instead of the ordinary one, for a version.
    pub migration: Option<(u32, String)>,
}

impl Release {
    pub fn of(build: u64) -> Self {
        Self { build, data: 1, never_ready: false, migration: None }
    }

    pub fn with_data(self, data: u32) -> Self {
        Self { data, ..self }
    }

    pub fn never_ready(self) -> Self {
        Self { never_ready: true, ..self }
    }

    pub fn with_migration(self, version: u32, script: &str) -> Self {
        Self { migration: Some((version, script.to_owned())), ..self }
    }

    pub fn version(&self) -> String {
        format!("v{}.0.0-{}-c0ffee", self.build, self.build)
    }
}

/// A backend under test.
pub trait Kind {
    const BACKEND: &'static str;
    /// Writes the payload and release.json of a release.
    fn write(release: &Release, to: &Path);
}

/// A supervised process.
pub struct Slot;

impl Kind for Slot {
    const BACKEND: &'static str = "slot";

    fn write(release: &Release, to: &Path) {
        fs::create_dir_all(to.join("bin")).unwrap();
        let program = to.join("bin/notes");
        fs::copy(programs::notes(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = vec!["bin/notes", "--data", "{data}", "--port", "{config.port}", "--version"];
        let (version, data) = (release.version(), release.data.to_string());
        command.extend([version.as_str(), "--data-version", &data]);
        if release.never_ready {
            command.extend(["--misbehave", "never-ready"]);
        }
        let manifest = json!({
            "apiVersion": "holdfast/v1",
            "kind": "Release",
            "version": version,
            "slot": {"command": command},
            "readiness": {
                "probe": {"http": {"url": "http://127.0.0.1:{config.port}/ready"}},
                "timeout": "60s",
                "interval": "10ms",
            },
        });
        fs::write(to.join("release.json"), manifest.to_string()).unwrap();
    }
}

/// Renames a key per version, and copies the store forward.
pub fn ordinary_migration(version: u32) -> String {
    format!(
        r#"#!/usr/bin/env python3
import json, os, shutil, sys
given = json.load(sys.stdin)
values = given["values"]
values["title{version}"] = values.pop("title{before}", "none")
old = os.path.join(given["stores"], "notes.v{before}")
if os.path.exists(old):
    shutil.copyfile(old, "stores/notes.v{version}")
json.dump({{"values": values}}, sys.stdout)
"#,
        before = version - 1
    )
}

pub struct Site<K: Kind> {
    pub root: PathBuf,
    pub port: u16,
    kind: std::marker::PhantomData<K>,
}

#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn by(mut command: Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl<K: Kind> Site<K> {
    pub fn new() -> Self {
        Self::at(&std::env::temp_dir())
    }

    /// On a file system of the test's choice.
    pub fn at(dir: &Path) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root = dir.join(format!("holdfast-upgrade-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("releases")).unwrap();
        let port = testkit::ports::free_port();
        Self { root, port, kind: std::marker::PhantomData }
    }

    pub fn appliances(&self) -> PathBuf {
        self.root.join("appliances")
    }

    pub fn appliance(&self) -> PathBuf {
        self.appliances().join("shop")
    }

    /// Packages a release, and says where it is.
    pub fn release(&self, release: &Release) -> String {
        let dir = self.root.join(format!("releases/{}", release.build));
        let _ = fs::remove_dir_all(&dir);
        K::write(release, &dir);
        for version in 2..=release.data {
            let script = match &release.migration {
                Some((of, script)) if *of == version => script.clone(),
                _ => ordinary_migration(version),
            };
            let path = dir.join(format!("migrations/appliance-{version}-title"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, script).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        dir.display().to_string()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(words).env("HOLDFAST_UPGRADE_DIRECTORY", self.appliances());
        // Never that of the machine at hand.
        command.env("HOLDFAST_AGENT_DIRECTORY", self.root.join("agent"));
        // Whether the processor of the machine at hand can do it is not what is tested.
        command.env("HOLDFAST_UPGRADE_VM__ACCELERATE", "false");
        command.stdin(Stdio::null()).current_dir(&self.root);
        command
    }

    pub fn run(&self, words: &[&str]) -> Done {
        Done::by(self.command(words))
    }

    #[track_caller]
    pub fn ok(&self, words: &[&str]) -> Done {
        self.ends(words, 0)
    }

    #[track_caller]
    pub fn ends(&self, words: &[&str], code: i32) -> Done {
        let done = self.run(words);
        assert_eq!(done.code, code, "{words:?}: {done:#?}");
        done
    }

    /// `shop`, from this release, running.
    pub fn create(&self, release: &Release) {
        let (reference, port) = (self.release(release), format!("port={}", self.port));
        let backend = K::BACKEND;
        let words = ["appliance", "create", "shop", "--release", &reference, "--backend", backend];
        let more = ["--set", &port, "--set", "title1=Shopping", "--set-secret", "password=hush", "--start"];
        self.ok(&[&words[..], &more[..]].concat());
    }

    #[track_caller]
    pub fn upgrade(&self, release: &Release) {
        let reference = self.release(release);
        self.ok(&["upgrade", "shop", "--release", &reference]);
    }

    pub fn inspect(&self) -> Value {
        let done = self.ok(&["appliance", "inspect", "shop", "-o", "json"]);
        serde_json::from_str(&done.out).unwrap()
    }

    pub fn get(&self, path: &str) -> Option<Answer> {
        ask(self.port, "GET", path, "")
    }

    pub fn put(&self, key: &str, text: &str) {
        let answer = ask(self.port, "PUT", &format!("/notes/{key}"), text);
        assert!(answer.is_some_and(|answer| answer.status < 300), "{key} cannot be kept");
    }

    pub fn note(&self, key: &str) -> Option<String> {
        let answer = self.get(&format!("/notes/{key}"))?;
        (answer.status == 200).then(|| answer.body.trim().to_owned())
    }

    /// Whoever answers says that it is this release, and `inspect` says the same.
    #[track_caller]
    pub fn serves(&self, release: &Release) {
        let answer = self.get("/version").map(|answer| answer.body.trim().to_owned());
        assert_eq!(answer.as_deref(), Some(release.version().as_str()));
        let seen = self.inspect();
        assert_eq!(seen["release"]["version"], Value::from(release.version()), "{seen:#}");
        assert_eq!(seen["on"], Value::from(true), "{seen:#}");
    }

    #[track_caller]
    pub fn state_is(&self, state: &str) {
        let seen = self.inspect();
        assert_eq!(seen["state"], Value::from(state), "{seen:#}");
    }

    /// Runs a command until it says that it begins with a step, and kills it there. What it had just started is told by the
    /// kernel to end with it, and has the lock until it does: a moment later.
    #[track_caller]
    pub fn killed_at(&self, words: &[&str], step: &str) {
        self.signalled_at(words, step, Signal::KILL);
        let lock = self.appliance().join("lock");
        self.wait("what it started to end with it", || !Lock::is_held(&lock).unwrap());
    }

    #[track_caller]
    pub fn signalled_at(&self, words: &[&str], step: &str, signal: Signal) -> Done {
        self.at_step(words, step, |pid| kill_process(pid, signal).unwrap())
    }

    /// Runs a command until it says that it begins with a step, and does something while it stands still there.
    #[track_caller]
    pub fn held_at(&self, words: &[&str], step: &str, act: impl FnOnce()) -> Done {
        self.at_step(words, step, |pid| {
            kill_process(pid, Signal::STOP).unwrap();
            act();
            kill_process(pid, Signal::CONT).unwrap();
        })
    }

    #[track_caller]
    fn at_step(&self, words: &[&str], step: &str, act: impl FnOnce(Pid)) -> Done {
        let mut child = self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut said = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut act = Some(act);
        while lines.read_line(&mut said).unwrap() > 0 {
            if said.lines().last().unwrap_or_default().ends_with(&format!(" {step}"))
                && let Some(act) = act.take()
            {
                act(pid);
            }
        }
        assert!(act.is_none(), "it never came to {step}: {said}");
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        Done { code: output.status.code().unwrap_or(-1), out, err: said }
    }

    /// The directory of a release's image.
    pub fn image(&self, release: &Release) -> PathBuf {
        let images = fs::read_dir(self.appliance().join("releases")).unwrap();
        let mut images = images.map(|entry| entry.unwrap().path());
        images.find(|path| path.display().to_string().contains(&release.version())).unwrap()
    }

    pub fn wait(&self, what: &str, until: impl Fn() -> bool) {
        let start = Instant::now();
        while !until() {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl<K: Kind> Drop for Site<K> {
    fn drop(&mut self) {
        let removed = self.run(&["appliance", "rm", "shop", "--force"]);
        if std::thread::panicking() {
            eprintln!("{removed:?}; what it was is in {}", self.root.display());
            return;
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}
