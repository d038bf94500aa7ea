//! How much a test covered: states, kill points, power cuts. `make prove` adds the numbers up for docs/proof.md.

use std::path::PathBuf;

/// What is counted. The table in docs/proof.md has one column for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    States,
    KillPoints,
    PowerCuts,
    FuzzInputs,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::States => "states",
            Kind::KillPoints => "kill-points",
            Kind::PowerCuts => "power-cuts",
            Kind::FuzzInputs => "fuzz-inputs",
        }
    }
}

/// Prints the number, and keeps it in the directory that `HOLDFAST_PROOF` names. A test says each kind once, with its
/// sum: a test that is repeated replaces its number.
pub fn count(kind: Kind, number: usize) {
    println!("covered: {number} {}", kind.name());
    let variable = |name| std::env::var(name).ok();
    let (Some(directory), Some(program), Some(test)) =
        (std::env::var_os("HOLDFAST_PROOF"), variable("NEXTEST_BINARY_ID"), variable("NEXTEST_TEST_NAME"))
    else {
        return;
    };
    let name = format!("{program} {test} {}", kind.name()).replace([':', '/'], "_");
    let path = PathBuf::from(directory).join(name);
    std::fs::write(&path, format!("{number} {}\n", kind.name()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
