//! Releases that a virtual machine boots: Debian's kernel, and an initial file system of busybox and two scripts.
//!
//! The machine keeps notes on its disk, in the form of its data version, and answers over HTTP on port 80: `/version`,
//! `/ready`, `/config` (what it was given through fw_cfg), `/notes/KEY` (GET, PUT). It refuses data that is newer than
//! it knows. On its serial line it says when it is ready. The power button ends it.
//!
//! Nothing here knows the code that it is there to judge: what a release looks like is written out by hand.

mod ask;
mod cpio;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

pub use ask::{Answer, ask};

const INIT: &str = include_str!("vm/init.sh");
const ANSWER: &str = include_str!("vm/answer.sh");

/// What a release is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behaviour {
    #[default]
    Good,
    /// It runs, answers, and says that it is not ready.
    NeverReady,
    /// Its kernel panics, before anything is ready.
    Panics,
    /// It takes no notice of the power button.
    Deaf,
    /// It writes to its serial line without end.
    Talks,
}

impl Behaviour {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::NeverReady => "never-ready",
            Self::Panics => "panics",
            Self::Deaf => "deaf",
            Self::Talks => "talks",
        }
    }
}

/// One release.
#[derive(Debug, Clone)]
pub struct Guest {
    pub version: String,
    /// What it answers on `/version`.
    pub answer: String,
    pub data_version: u32,
    pub behaviour: Behaviour,
    /// As in `release.json`: `{"http": {"url": …}}`. The default asks `/ready`.
    pub probe: Value,
    /// As in `release.json`, for what is not the default.
    pub vm: Value,
    pub ready_timeout: String,
}

impl Guest {
    pub fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            answer: version.to_owned(),
            data_version: 1,
            behaviour: Behaviour::Good,
            probe: json!({"http": {"url": "http://127.0.0.1:{config.port}/ready"}}),
            vm: json!({}),
            ready_timeout: "120s".to_owned(),
        }
    }

    /// Writes the whole release into a directory that is not there yet.
    pub fn write(&self, to: &Path) {
        fs::create_dir_all(to).expect("a directory for the release");
        fs::copy(makings().join("vmlinuz"), to.join("vmlinuz")).expect("the kernel");
        fs::write(to.join("initrd"), self.initial_file_system()).expect("room for the initial file system");
        let manifest = serde_json::to_vec_pretty(&self.manifest()).expect("a document");
        fs::write(to.join("release.json"), manifest).expect("room for release.json");
    }

    fn manifest(&self) -> Value {
        let mut vm = json!({
            "kernel": "vmlinuz",
            "initrd": "initrd",
            // What makes it quick under emulation, and end when it panics.
            "append": "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check nokaslr",
            "memoryMib": 192,
            "disk": {"sizeMib": 32},
            "forward": [{"guest": 80, "host": "{config.port}"}],
            "stopTimeout": "20s",
        });
        for (key, value) in self.vm.as_object().into_iter().flatten() {
            vm[key] = value.clone();
        }
        json!({
            "apiVersion": "holdfast/v1",
            "kind": "Release",
            "version": self.version,
            "dataVersions": {"appliance": self.data_version},
            "vm": vm,
            "readiness": {"probe": self.probe, "timeout": self.ready_timeout},
        })
    }

    fn initial_file_system(&self) -> Vec<u8> {
        let about = format!(
            "VERSION='{}'\nDATA={}\nBEHAVIOUR={}\n",
            self.answer,
            self.data_version,
            self.behaviour.name()
        );
        let mut archive = cpio::Archive::default();
        for directory in ["bin", "data", "dev", "modules", "proc", "sys"] {
            archive.directory(directory);
        }
        let busybox = fs::read(makings().join("busybox")).expect("busybox");
        archive.file("bin/busybox", 0o755, &busybox);
        archive.file("init", 0o755, INIT.as_bytes());
        archive.file("answer", 0o755, ANSWER.as_bytes());
        archive.file("about", 0o644, about.as_bytes());
        for entry in fs::read_dir(makings().join("modules")).expect("modules") {
            let path = entry.expect("a module").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            archive.file(&format!("modules/{name}"), 0o644, &fs::read(&path).expect("a module"));
        }
        archive.finish()
    }
}

/// Where kernel, modules and busybox are: as `GUEST_KERNEL` says, or fetched by `scripts/guest-kernel`.
fn makings() -> &'static Path {
    static MAKINGS: LazyLock<PathBuf> = LazyLock::new(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest-kernel");
        let done = Command::new(&script).output().expect("scripts/guest-kernel");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "there is no kernel for virtual machines: {said}");
        PathBuf::from(String::from_utf8_lossy(&done.stdout).trim())
    });
    &MAKINGS
}
