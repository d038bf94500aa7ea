//! An appliance that is a host, in a directory that goes with the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use logic::upgrade::{Image, ImageId, ReleaseVersion, SnapshotId};
use serde_json::json;
use upgrade::backend::ostree::{Ostree, Settings};
use upgrade::backend::{Backend, Result};
use upgrade::{Configuration, Layout};

pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("holdfast-ostree-{}-{number}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn image(build: u64) -> ImageId {
    whole_image(build).id
}

fn whole_image(build: u64) -> Image {
    let version = ReleaseVersion::parse(&format!("v{build}-{build}-abc")).unwrap();
    Image::new(version, &format!("sha256:{build:064}"))
}

pub fn snapshot_id(number: u8) -> SnapshotId {
    SnapshotId::new([number; 12])
}

/// The appliance, in the hands of one process.
pub struct Appliance {
    pub layout: Layout,
    pub backend: Ostree,
}

impl Appliance {
    pub fn new(scratch: &Scratch, settings: Settings) -> Self {
        let layout = Layout::at(&scratch.path().join("appliance"));
        let backend = Ostree::new(layout.clone(), settings);
        backend.files().lay_out().unwrap();
        Self { layout, backend }
    }

    pub fn configure(&self, build: u64, colour: &str) {
        let values = json!({"colour": colour}).as_object().unwrap().clone();
        let release = whole_image(build);
        Configuration { release, data_version: 1, applied: vec![], values }.save(&self.layout).unwrap();
    }

    pub fn colour(&self) -> String {
        Configuration::load(&self.layout).unwrap().values["colour"].as_str().unwrap().to_owned()
    }

    /// A release that is `reference`, and that says by `check` whether it is ready.
    pub fn stage(&self, build: u64, reference: &str, check: &str) -> Result<()> {
        let brought = self.layout.incoming();
        write_release(&brought, build, reference, check);
        self.backend.stage_image(&image(build), &brought)?;
        // What was brought is gone, and the image is there: done.
        self.backend.stage_image(&image(build), &brought)
    }

    pub fn current(&self) -> Option<ImageId> {
        self.backend.describe().unwrap().current
    }

    pub fn wait_ready(&self) -> Result<()> {
        self.backend.wait_ready(Some(Duration::from_millis(300)), &AtomicBool::new(false))
    }

    /// Who does not know whether it was done does it again.
    pub fn twice(&self, call: impl Fn(&Ostree) -> Result<()>) {
        call(&self.backend).unwrap();
        call(&self.backend).unwrap();
    }
}

pub fn write_release(to: &Path, build: u64, reference: &str, check: &str) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    let manifest = json!({
        "apiVersion": "holdfast/v1",
        "kind": "Release",
        "version": format!("v{build}-{build}-abc"),
        "ostree": {"reference": reference},
        "readiness": {"probe": {"command": {"command": ["check"]}}, "interval": "10ms"},
    });
    fs::write(to.join("release.json"), manifest.to_string()).unwrap();
    fs::write(to.join("check"), format!("#!/bin/sh\n{check}\n")).unwrap();
    fs::set_permissions(to.join("check"), fs::Permissions::from_mode(0o755)).unwrap();
}
