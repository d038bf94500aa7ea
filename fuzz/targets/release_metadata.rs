//! `release-manifests/release-metadata`, as any image may hold it.
#![no_main]

use graph::source::metadata::parse_release_metadata;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok((name, metadata)) = parse_release_metadata(bytes) {
        assert_eq!(
            (&name.version.major, &name.version.minor),
            (&metadata.version.major, &metadata.version.minor)
        );
    }
});
