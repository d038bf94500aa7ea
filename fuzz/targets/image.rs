//! What a registry or a layout may hand out as a manifest, a configuration or a layer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oci::layers::{LayerLimits, Said, find_file};
use oci::manifest::{ImageConfig, Manifest};
use oci::path::ImagePath;

const LIMITS: LayerLimits = LayerLimits { layer_bytes: 1 << 20, file_bytes: 1 << 10 };

fuzz_target!(|bytes: &[u8]| {
    let _ = Manifest::parse(bytes);
    let _ = ImageConfig::parse(bytes).map(|config| config.labels().count());
    let Ok(wanted) = ImagePath::parse("etc/release") else { return };
    if let Ok(Said::Content(content)) = find_file(bytes, &wanted, LIMITS) {
        assert!(content.len() as u64 <= LIMITS.file_bytes);
    }
});
