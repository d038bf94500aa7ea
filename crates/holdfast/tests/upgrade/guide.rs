//! The guide, as it stands: every block that a reader is told to type is typed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::site::Site;
use crate::slot::Slot;

/// The blocks of a page that are to be typed, in order.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![];
    let mut rest = page;
    while let Some((_, from)) = rest.split_once("```sh\n") {
        let (block, after) = from.split_once("```").expect("a block ends");
        blocks.push(block.to_owned());
        rest = after;
    }
    blocks
}

#[test]
fn what_the_guide_says_is_what_happens() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let page = fs::read_to_string(repository.join("docs/guides/upgrade.md")).unwrap();
    let site = Site::<Slot>::new();
    std::os::unix::fs::symlink(repository.join("examples"), site.root.join("examples")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "only {} blocks", blocks.len());
    let binaries = Path::new(env!("CARGO_BIN_EXE_holdfast")).parent().unwrap().display().to_string();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap());
    for block in blocks {
        let block = block.replace("8471", &site.port.to_string());
        let output = Command::new("bash")
            .args(["-e", "-u", "-o", "pipefail", "-c", &block])
            .current_dir(&site.root)
            .env("PATH", &path)
            .env("HOLDFAST_UPGRADE_DIRECTORY", site.appliances())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{block}\n{out}\n{said}");
        println!("{block}\n{out}{said}");
    }
}
