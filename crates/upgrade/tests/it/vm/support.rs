//! A machine of its own for a test: switched off and gone with its value.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use logic::upgrade::{Image, ImageId, ReleaseVersion, SnapshotId};
use serde_json::{Value, json};
use testkit::vm::{Guest, ask};
use upgrade::backend::Backend;
use upgrade::backend::vm::{Settings, Vm};
use upgrade::{Configuration, Layout};

pub struct Appliance {
    root: PathBuf,
    pub layout: Layout,
    pub vm: Vm,
    pub port: u16,
}

/// Emulated, wherever the test runs.
pub fn settings() -> Settings {
    Settings { accelerate: false, ..Settings::default() }
}

pub fn scratch() -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("holdfast-vm-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).unwrap();
    root
}

pub fn snapshot_id(number: u8) -> SnapshotId {
    SnapshotId::new([number; 12])
}

impl Appliance {
    pub fn new() -> Self {
        Self::at(scratch())
    }

    pub fn at(root: PathBuf) -> Self {
        let layout = Layout::at(&root.join("machine"));
        let vm = Vm::new(layout.clone(), settings());
        vm.files().lay_out().unwrap();
        Self { root, layout, vm, port: testkit::ports::free_port() }
    }

    /// The same appliance, as another process would see it.
    pub fn seen_with(&self, settings: Settings) -> Vm {
        Vm::new(self.layout.clone(), settings)
    }

    pub fn scratch(&self) -> &Path {
        &self.root
    }

    /// Stages the release and makes it the one in force.
    pub fn install(&self, guest: &Guest) -> ImageId {
        let image = self.stage(guest);
        self.configure(guest, json!({}));
        self.vm.reconfigure(&image).unwrap();
        image
    }

    pub fn stage(&self, guest: &Guest) -> ImageId {
        let image = image(guest);
        let brought = self.root.join("brought");
        guest.write(&brought);
        self.vm.stage_image(&image.id, &brought).unwrap();
        image.id
    }

    pub fn configure(&self, guest: &Guest, more: Value) {
        let mut values = json!({"port": self.port}).as_object().unwrap().clone();
        values.extend(more.as_object().unwrap().clone());
        let configuration = Configuration {
            release: image(guest),
            data_version: guest.data_version,
            applied: vec![],
            values,
        };
        configuration.save(&self.layout).unwrap();
    }

    pub fn start(&self) {
        self.vm.power_on().unwrap();
        self.vm.wait_ready(None, &AtomicBool::new(false)).unwrap();
    }

    pub fn get(&self, path: &str) -> Option<String> {
        ask(self.port, "GET", path, "").filter(|answer| answer.status == 200).map(|answer| answer.body)
    }

    pub fn put(&self, key: &str, value: &str) {
        let answer = ask(self.port, "PUT", &format!("/notes/{key}"), value).unwrap();
        assert_eq!(answer.status, 200);
    }

    /// How many processes have this appliance's directory as their own.
    pub fn processes(&self) -> Vec<u32> {
        let run = fs::canonicalize(self.layout.run()).unwrap();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let id = entry.file_name().to_string_lossy().parse().ok();
            if let (Some(id), Ok(cwd)) = (id, fs::read_link(entry.path().join("cwd")))
                && cwd == run
            {
                found.push(id);
            }
        }
        found
    }

    pub fn kill_process(&self) {
        for id in self.processes() {
            Command::new("kill").args(["-9", &id.to_string()]).status().unwrap();
        }
        while self.vm.describe().unwrap().on {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Appliance {
    fn drop(&mut self) {
        for id in self.processes() {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

fn image(guest: &Guest) -> Image {
    Image::new(ReleaseVersion::parse(&guest.version).unwrap(), "sha256:0123456789abcdef")
}
