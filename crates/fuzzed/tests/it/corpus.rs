use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fuzzed::TARGETS;
use testkit::proof::{Kind, count};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
const FUZZERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/src/bin");

/// The entries of a directory, in a fixed order.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let read =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = read.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    paths
}

/// Runs a target over all of its inputs, and panics with the names of those that made it panic.
fn replay(name: &str) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("the target is in TARGETS");
    let inputs = entries(&Path::new(CORPUS).join(name));
    assert!(!inputs.is_empty(), "{CORPUS}/{name} is empty");
    let mut failed = Vec::new();
    for input in &inputs {
        let bytes = std::fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display()));
        // Printed first: an input that overflows the stack, or never ends, has its name in the output, too.
        println!("{}", input.display());
        if std::panic::catch_unwind(|| target(&bytes)).is_err() {
            failed.push(input.display());
        }
    }
    assert!(failed.is_empty(), "{name} fails on {failed:#?}");
    count(Kind::FuzzInputs, inputs.len());
}

macro_rules! replay_each {
    ($($name:ident)*) => {
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];

        mod no_input_of_the_corpus_makes_a_target_fail {
            $(
                #[test]
                fn $name() {
                    super::replay(stringify!($name));
                }
            )*
        }
    };
}

replay_each! {
    chunk_frames
    cosign
    graph_data
    image
    migration_answer
    migration_data
    qcow2
    query
    release_metadata
    signature
    token
}

#[test]
fn every_target_has_a_test_a_fuzzer_and_a_directory_of_inputs() {
    let targets: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(targets.len(), TARGETS.len(), "two targets have the same name");
    assert_eq!(targets, REPLAYED.iter().copied().collect());
    for (directory, ending) in [(CORPUS, ""), (FUZZERS, ".rs")] {
        let expected: BTreeSet<String> = targets.iter().map(|name| format!("{name}{ending}")).collect();
        let paths = entries(Path::new(directory));
        let present = paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
        assert_eq!(expected, present, "{directory}");
    }
}
