//! The first bytes of an image from anywhere.
#![no_main]

use images::file::shape_of;
use images::qcow2::Header;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let header = Header::read(bytes);
    let shape = shape_of(bytes, bytes.len() as u64, None);
    if let Ok(Some(header)) = header
        && (header.backing_file.is_some() || header.external_data)
    {
        assert!(shape.is_err(), "an image that names another file is taken");
    }
});
