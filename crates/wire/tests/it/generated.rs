//! The committed code is what the protocol file says. `UPDATE=1` writes it anew.

use std::fs;
use std::path::Path;

#[test]
fn the_generated_code_is_that_of_the_protocol_file() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = crate_dir.join("proto");
    let scratch = std::env::temp_dir().join(format!("holdfast-wire-{}", std::process::id()));
    fs::create_dir_all(&scratch).unwrap();
    let descriptors = protox::compile(["images.proto"], [&proto]).unwrap();
    tonic_prost_build::configure().bytes(".").out_dir(&scratch).compile_fds(descriptors).unwrap();
    let name = "holdfast.images.v1.rs";
    let made = fs::read_to_string(scratch.join(name)).unwrap();
    fs::remove_dir_all(&scratch).unwrap();
    let committed = crate_dir.join("src/generated").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&committed, &made).unwrap();
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(made == current, "{} is stale: run this test with UPDATE=1", committed.display());
}
