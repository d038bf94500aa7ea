//! Directories and appliances without a program, made of nothing but files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use logic::upgrade::{ImageId, ReleaseVersion, SnapshotId};
use upgrade::Layout;
use upgrade::backend::files::Files;

/// A directory that goes with the test.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    pub fn below(parent: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("upgrade-test-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn image(build: u64) -> ImageId {
    let version = ReleaseVersion::parse(&format!("v{build}-{build}-abc")).unwrap();
    ImageId::new(&version, &format!("sha256:{build:064}"))
}

pub fn snapshot_id(number: u8) -> SnapshotId {
    SnapshotId::new([number; 12])
}

/// An appliance of files: release 1 in force, release 2 beside it, some state.
pub fn files(root: &Path) -> Files {
    let files = Files::new(Layout::at(root)).with_threads(1);
    files.lay_out().unwrap();
    for build in [1, 2] {
        let brought = bring(root, build);
        files.stage(&image(build), &brought).unwrap();
    }
    files.set_current(&image(1)).unwrap();
    let data = files.layout().data();
    fs::write(files.layout().configuration(), "configuration of 1").unwrap();
    fs::create_dir(data.join("deep")).unwrap();
    fs::write(data.join("deep/a"), vec![b'a'; 20_000]).unwrap();
    fs::write(data.join("b"), "b of 1").unwrap();
    fs::hard_link(data.join("b"), data.join("deep/b")).unwrap();
    std::os::unix::fs::symlink("b", data.join("link")).unwrap();
    files
}

/// A release as it is brought.
pub fn bring(root: &Path, build: u64) -> PathBuf {
    let brought = root.join("incoming");
    let _ = fs::remove_dir_all(&brought);
    fs::create_dir_all(brought.join("bin")).unwrap();
    fs::write(brought.join("release.json"), format!("release {build}")).unwrap();
    fs::write(brought.join("bin/program"), "#!/bin/sh\n").unwrap();
    brought
}

/// As the new release would do it.
pub fn change_state(files: &Files) {
    let data = files.layout().data();
    fs::write(files.layout().configuration(), "configuration of 2").unwrap();
    fs::write(data.join("deep/a"), "shorter").unwrap();
    fs::remove_file(data.join("b")).unwrap();
    fs::write(data.join("new"), "of 2").unwrap();
}
