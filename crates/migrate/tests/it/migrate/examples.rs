//! The examples of the guide: the Rust program and the Python executables do the same to the same data.

use std::fs;
use std::path::{Path, PathBuf};

use migrate::{Document, Options, Registry};
use serde_json::{Value, json};

use crate::migrate::support::{Scratch, names};

#[allow(dead_code)] // Its main function is for people.
#[path = "../../../../../examples/migrations/rust/main.rs"]
mod in_rust;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/migrations");

fn stores(scratch: &Scratch) -> PathBuf {
    let stores = scratch.dir("stores");
    fs::write(stores.join("images.v1"), "busybox\nnginx\n").unwrap();
    stores
}

fn check(document: &Document, stores: &Path) {
    let expected = json!({
        "admin": {"$secret": "correct horse battery staple"},
        "hostname": "shop-17",
        "listeners": [{"port": 8080}],
    });
    assert_eq!(Value::from(document.data.values.clone()), expected);
    assert_eq!((document.data.version, document.data.applied.len()), (3, 2));
    assert_eq!(names(stores), ["images.v1", "images.v3"]);
    assert_eq!(fs::read_to_string(stores.join("images.v1")).unwrap(), "busybox\nnginx\n");
    assert_eq!(fs::read_to_string(stores.join("images.v3")).unwrap(), "count 2\nbusybox\nnginx\n");
}

#[test]
fn the_example_in_rust_runs() {
    let scratch = Scratch::new();
    let stores = stores(&scratch);
    let data = PathBuf::from(format!("{EXAMPLES}/data.json"));
    check(&in_rust::migrated(&data, Some(&stores)).unwrap(), &stores);
}

#[test]
fn the_example_in_python_runs() {
    let scratch = Scratch::new();
    let stores = stores(&scratch);
    let document = Document::parse(&fs::read(format!("{EXAMPLES}/data.json")).unwrap()).unwrap();
    let mut registry = Registry::new();
    registry.discover(Path::new(&format!("{EXAMPLES}/python/migrations"))).unwrap();
    let work = scratch.0.join("work");
    let done =
        registry.run(document.target, &document.data, Some(&stores), &work, &Options::default()).unwrap();
    assert_eq!(done.unavailable().collect::<Vec<_>>(), ["image-history"]);
    done.install_stores(&stores).unwrap();
    check(&Document { target: document.target, data: done.data }, &stores);
}
