//! Cosign-style signatures and their keys: nothing but the one payload that was signed is ever accepted, and nothing panics.
//! The first line is a signature, the rest a payload.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use trust::cosign::{PublicKey, verify};
use trust::digest::Digest;

const KEY: &[u8] = include_bytes!("../seeds/cosign.pub");
/// No other text was ever signed with the key.
const PAYLOAD: &[u8] = include_bytes!("../seeds/cosign.payload");

static KEYS: LazyLock<Vec<PublicKey>> =
    LazyLock::new(|| PublicKey::read_all(KEY).expect("the key of the seeds"));

fuzz_target!(|bytes: &[u8]| {
    let image = Digest::sha256(b"a manifest");
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (signature, payload) =
        (String::from_utf8_lossy(&bytes[..end]), bytes.get(end + 1..).unwrap_or_default());
    if verify(payload, &signature, &KEYS, std::slice::from_ref(&image)).is_ok() {
        assert_eq!(payload, PAYLOAD);
    }
    assert!(verify(payload, &signature, &KEYS, &[Digest::sha256(b"another")]).is_err());
    if let Ok(keys) = PublicKey::read_all(bytes) {
        let _ = verify(PAYLOAD, &signature, &keys, &[image]);
    }
});
