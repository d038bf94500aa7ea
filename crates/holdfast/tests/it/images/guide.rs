//! The guide, as it stands: every block that a reader is told to type is typed, in one shell, whose children end with it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::guide::blocks;
use testkit::registry::Scratch;

/// A directory with `holdfast-next`: a program of another version, whose managers speak the API of this one.
fn next_version(directory: &Path) -> String {
    let before = env!("CARGO_BIN_EXE_holdfast-before");
    let script = format!("#!/bin/sh\nHOLDFAST_TEST_ACT_AS='1.0.0 1 2' exec {before} \"$@\"\n");
    fs::create_dir_all(directory).unwrap();
    let program = directory.join("holdfast-next");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    directory.display().to_string()
}

#[test]
fn what_the_guide_says_is_what_happens() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = fs::read_to_string(repository.join("docs/guides/images.md")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "only {} blocks", blocks.len());
    let scratch = Scratch::new("images-guide");
    let port = testkit::ports::free_port();
    let script = blocks.join("\n").replace("7420", &port.to_string());
    // The managers are children of this shell, and end with it.
    let script = format!("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n{script}");
    let binaries = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap().display().to_string();
    let next = next_version(&scratch.join("next"));
    let mut shell = Command::new("bash")
        .args(["-e", "-u", "-x", "-o", "pipefail", "-s"])
        .current_dir(&scratch.0)
        .env("PATH", format!("{binaries}:{next}:{}", std::env::var("PATH").unwrap()))
        .env("HOLDFAST_IMAGES_MANAGER__DISK_RESERVE", "0")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let ended = shell.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let log = fs::read_to_string(scratch.join("serve.log")).unwrap_or_default();
    assert!(
        ended.status.success(),
        "{}\n{said}\n== serve.log\n{log}",
        String::from_utf8_lossy(&ended.stdout)
    );
}
