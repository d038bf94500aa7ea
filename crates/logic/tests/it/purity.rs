//! What `logic` may depend on: nothing that reads a clock, a file or the network, and nothing that waits.

use std::collections::BTreeSet;
use std::process::Command;

/// Words for data, errors, and what generates their code. Everything else needs a reason to be here.
const ALLOWED: [&str; 36] = [
    "logic",
    "serde",
    "serde_core",
    "serde_derive",
    "thiserror",
    "thiserror-impl",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
    "semver",
    // Patterns in graph data; it reads nothing and runs in linear time.
    "regex",
    "regex-automata",
    "regex-syntax",
    "aho-corasick",
    "memchr",
    // Values of configurations, which migrations change; a data model, used without readers or writers.
    "serde_json",
    "itoa",
    "zmij",
    // The hash that an API server shows of a storage version.
    "base64",
    "block-buffer",
    "cfg-if",
    "const-oid",
    "cpufeatures",
    "crypto-common",
    "digest",
    "hybrid-array",
    "libc",
    "sha2",
    "typenum",
    // The hash of an image's chunks.
    "arrayvec",
    "blake3",
    "cc",
    "constant_time_eq",
    "find-msvc-tools",
    "shlex",
];

#[test]
fn nothing_that_does_io_or_waits_is_among_the_dependencies() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = Command::new(cargo)
        .args(["tree", "--package", "logic", "--edges", "normal,build", "--prefix", "none", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo can be run");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let text = String::from_utf8_lossy(&tree.stdout);
    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains("logic") && names.contains("serde"), "the tree was not understood:\n{text}");
    let strangers: Vec<_> = names.iter().filter(|name| !ALLOWED.contains(name)).collect();
    assert!(strangers.is_empty(), "logic is pure; it must not depend on {strangers:?}");
}
