//! The programs of this crate that tests run: where they were built.

use std::path::PathBuf;

/// The small appliance of `src/bin/notes.rs`.
pub fn notes() -> PathBuf {
    find("notes")
}

/// Beside the running test, which lies in `deps` of the directory that programs are built into.
fn find(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it lies");
    let path = test.ancestors().skip(1).take(2).map(|dir| dir.join(name)).find(|path| path.is_file());
    path.unwrap_or_else(|| panic!("the program {name} is not built: build with --workspace or -p testkit"))
}
