//! OpenPGP: what is not signed by the one key that is trusted is never accepted, and nothing panics.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use libfuzzer_sys::fuzz_target;
use trust::container_signature;
use trust::digest::Digest;
use trust::openpgp::Keyring;

const KEY: &[u8] = include_bytes!("../seeds/key.asc");
/// What the seeds sign; no other text was ever signed with the key.
const TEXT: &[u8] = include_bytes!("../seeds/text");

static KEYS: LazyLock<Keyring> = LazyLock::new(|| Keyring::read(KEY).expect("the key of the seeds"));

fuzz_target!(|bytes: &[u8]| {
    let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    if let Ok(found) = KEYS.verify_message(bytes, now) {
        assert_eq!(found.content, TEXT);
    }
    let _ = KEYS.verify_detached(TEXT, bytes, now);
    assert!(KEYS.verify_detached(b"another text", bytes, now).is_err());
    let _ = container_signature::verify(bytes, &KEYS, &Digest::sha256(b""), now);
    let _ = container_signature::claims(bytes);
    if let Ok(keys) = Keyring::read(bytes) {
        let _ = keys.verify_detached(TEXT, bytes, now);
    }
});
