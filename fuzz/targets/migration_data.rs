//! Documents with data to migrate, and the names of migrations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logic::migrate::path;
use migrate::{Document, Named};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(name) = std::str::from_utf8(bytes)
        && let Ok(named) = Named::parse(name)
    {
        assert!(name.starts_with(named.target.as_str()));
    }
    let Ok(document) = Document::parse(bytes) else { return };
    let again = Document::parse(document.to_json().as_bytes()).expect("what was written can be read");
    assert_eq!(again, document);
    let data = &document.data;
    if let Ok(path) = path(document.target, data.version, &data.applied, &[], data.version) {
        assert!(path.is_empty());
    }
});
