//! What the tests that break things share: one device on a disk of its own, data whose generation can be told from
//! every single file, and the questions that must have the same answer whatever went wrong.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod generations;
pub mod promise;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

pub use generations::Pristine;

pub const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// A directory that goes with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("holdfast-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One boot of one deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boot {
    pub id: &'static str,
    pub deployment: &'static str,
    pub version: &'static str,
}

pub const fn boot(id: &'static str, deployment: &'static str, version: &'static str) -> Boot {
    Boot { id, deployment, version }
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Said {
    #[track_caller]
    pub fn ok(self) -> Said {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// Ended with this code, named the thing, and said what to do about it.
    #[track_caller]
    pub fn failed(self, code: i32, naming: &[&str]) -> Said {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(self.stderr.contains("error: "), "no error is named: {}", self.stderr);
        assert!(self.stderr.contains("hint: "), "there is no way out: {}", self.stderr);
        for word in naming {
            assert!(self.stderr.contains(word), "{word:?} is not named: {}", self.stderr);
        }
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A device: its data, its backups, and what is known about it from outside.
pub struct Device {
    pub data: PathBuf,
    pub backups: PathBuf,
    /// Never on the disk under test.
    pub outside: Scratch,
    pub pristine: Pristine,
    pub variables: Vec<(String, String)>,
}

/// A copy as `backups list` names it.
#[derive(Debug, Clone)]
pub struct Copy {
    pub number: u64,
    pub path: PathBuf,
    pub is_backup: bool,
    pub vouched: bool,
    pub tainted: bool,
    pub method: String,
}

impl Device {
    /// Data and backups side by side below `root`.
    pub fn below(root: &Path) -> Device {
        Device::at(&root.join("data"), &root.join("backups"))
    }

    pub fn at(data: &Path, backups: &Path) -> Device {
        let outside = Scratch::new();
        let pristine = Pristine::below(&outside.0.join("pristine"));
        for (booted, other) in [("d1", "d2"), ("d2", "d1")] {
            let text = format!(r#"{{"booted":"{booted}","rollback":"{other}","deployments":["d1","d2"]}}"#);
            fs::write(outside.0.join(format!("{booted}.json")), text).unwrap();
        }
        Device { data: data.into(), backups: backups.into(), outside, pristine, variables: vec![] }
    }

    pub fn with(mut self, name: &str, value: impl Into<String>) -> Device {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// The real binary, told every fact; one thread, so that the order of its calls is always the same.
    pub fn command(&self, boot: Boot, arguments: &[&str]) -> Command {
        let mut command = Command::new(HOLDFAST);
        let deployments = self.outside.0.join(format!("{}.json", boot.deployment));
        command
            .arg("guard")
            .args(arguments)
            .env("HOLDFAST_GUARD_DATA_DIR", &self.data)
            .env("HOLDFAST_GUARD_BACKUPS_DIR", &self.backups)
            .env("HOLDFAST_GUARD_DEPLOYMENTS", deployments)
            .env("HOLDFAST_GUARD_BOOT_ID", boot.id)
            .env("HOLDFAST_GUARD_WORKLOAD_VERSION", boot.version)
            .env("HOLDFAST_GUARD_COPY_THREADS", "1")
            .envs(self.variables.iter().cloned());
        command
    }

    pub fn guard(&self, boot: Boot, arguments: &[&str]) -> Said {
        self.command(boot, arguments).output().unwrap().into()
    }

    pub fn pre_run(&self, boot: Boot) -> Said {
        self.guard(boot, &["pre-run"])
    }

    /// A boot up to its workload's work: the data is then of this generation.
    #[track_caller]
    pub fn works(&self, boot: Boot, generation: u32) {
        self.pre_run(boot).ok();
        self.guard(boot, &["run", "--", "true"]).ok();
        self.pristine.write(&self.data, generation);
    }

    #[track_caller]
    pub fn healthy(&self, boot: Boot, generation: u32) {
        self.works(boot, generation);
        self.guard(boot, &["persist-system-health", "--healthy"]).ok();
    }

    #[track_caller]
    pub fn unhealthy(&self, boot: Boot, generation: u32) {
        self.works(boot, generation);
        self.guard(boot, &["persist-system-health", "--unhealthy"]).ok();
    }

    /// Vouched for by hand: no retention runs, so generations pile up.
    #[track_caller]
    pub fn marked(&self, boot: Boot, generation: u32) {
        self.works(boot, generation);
        self.guard(boot, &["mark-deploy-as-healthy", "--reason", "test"]).ok();
    }

    #[track_caller]
    pub fn copies(&self, boot: Boot) -> Vec<Copy> {
        let listed = self.guard(boot, &["backups", "list", "-o", "json"]).ok().json();
        let foreign = &listed["foreign"];
        assert!(foreign.as_array().is_none_or(Vec::is_empty), "nobody claims {foreign}");
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        let copy = |item: &Value| Copy {
            number: item["number"].as_u64().unwrap(),
            path: self.backups.join(item["name"].as_str().unwrap()),
            is_backup: item["kind"] == "backup",
            vouched: item["vouched"] == true,
            tainted: item["tainted"] == true,
            method: item["method"].as_str().unwrap_or_default().to_owned(),
        };
        items.iter().map(copy).collect()
    }

    /// The number of the backup that holds this generation.
    #[track_caller]
    pub fn backup_of(&self, boot: Boot, generation: u32) -> Copy {
        let copies = self.copies(boot);
        let found = copies.iter().find(|c| c.is_backup && self.pristine.same(&c.path, generation).is_ok());
        found.unwrap_or_else(|| panic!("no backup holds generation {generation}: {copies:?}")).clone()
    }

    /// Nothing half made is left anywhere, and everything that is kept is what it was.
    pub fn tidy(&self, boot: Boot) -> Result<(), String> {
        let mut left = Vec::new();
        for dir in [&self.data.parent().unwrap().to_owned(), &self.data, &self.backups, &self.records()] {
            let own = names(dir).into_iter().filter(|name| name.starts_with(".holdfast-"));
            left.extend(own.map(|name| dir.join(name)));
        }
        let staging = self.backups.join(".staging");
        left.extend(names(&staging).into_iter().map(|name| staging.join(name)));
        let lists = names(&self.records()).into_iter().filter(|name| name.ends_with(".files"));
        left.extend(
            lists.map(|name| self.records().join(name)).filter(|list| !list.with_extension("json").exists()),
        );
        if !left.is_empty() {
            return Err(format!("left behind: {left:?}"));
        }
        let journal = fs::read_to_string(self.backups.join(".journal")).unwrap_or_default();
        if !journal.is_empty() {
            return Err(format!("the journal is not empty: {journal}"));
        }
        match self.guard(boot, &["backups", "verify"]) {
            said if said.code == 0 => Ok(()),
            said => Err(format!("verify: {} {}", said.stdout, said.stderr)),
        }
    }

    pub fn records(&self) -> PathBuf {
        self.backups.join(".records")
    }
}

/// What a directory holds, in order; nothing where there is none.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "needs root: run the tests with sudo (make test does)");
}
