//! The guide, as it stands: every block that a reader is told to type is typed.

use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::guide::blocks;

use crate::upgrade::site::{Site, Slot};

/// The blocks of a guide, and a place to type them in.
fn guide(name: &str) -> (Vec<String>, Site<Slot>) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = fs::read_to_string(repository.join("docs/guides").join(name)).unwrap();
    let site = Site::<Slot>::new();
    std::os::unix::fs::symlink(repository.join("examples"), site.root.join("examples")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "only {} blocks", blocks.len());
    (blocks, site)
}

fn typed(text: &str, site: &Site<Slot>, more: &[(&str, String)]) {
    let binaries = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap().display().to_string();
    let output = Command::new("bash")
        .args(["-e", "-u", "-o", "pipefail", "-c", text])
        .current_dir(&site.root)
        .env("PATH", format!("{binaries}:{}", std::env::var("PATH").unwrap()))
        .envs(more.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{out}\n{said}");
    println!("{text}\n{out}{said}");
}

#[test]
fn what_the_guide_says_is_what_happens() {
    let (blocks, site) = guide("upgrade.md");
    let directory = [("HOLDFAST_UPGRADE_DIRECTORY", site.appliances().display().to_string())];
    for block in blocks {
        typed(&block.replace("8471", &site.port.to_string()), &site, &directory);
    }
}

#[test]
fn what_the_tutorial_says_is_what_happens() {
    let (blocks, site) = guide("agent.md");
    // One shell from beginning to end, as a reader has it.
    let text = blocks.join("\n").replace("8480", &testkit::ports::free_port().to_string());
    typed(&text.replace("8481", &site.port.to_string()), &site, &[]);
}
