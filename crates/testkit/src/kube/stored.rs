//! What the bytes in etcd say of themselves.

use base64::Engine as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The hash that discovery shows for what is stored as this.
pub fn storage_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The `apiVersion` in which an object is stored, be it JSON (custom resources) or protobuf (built-in ones).
/// Of an encrypted one, its prefix up to the name of the key.
pub fn stored_version(bytes: &[u8]) -> String {
    if let Some(rest) = bytes.strip_prefix(b"k8s\0") {
        return protobuf_version(rest).unwrap_or_else(|| panic!("not an object of Kubernetes: {bytes:?}"));
    }
    if bytes.starts_with(b"k8s:enc:") {
        let end = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b':')
            .nth(4)
            .map_or(bytes.len(), |(at, _)| at);
        return String::from_utf8_lossy(&bytes[..end]).into_owned();
    }
    let object: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| {
        panic!("not an object of Kubernetes: {error}: {:?}", String::from_utf8_lossy(bytes))
    });
    object["apiVersion"].as_str().expect("an apiVersion").to_owned()
}

/// The envelope's first field holds type and version, whose first field is the version. Both are short.
fn protobuf_version(bytes: &[u8]) -> Option<String> {
    let field = |bytes: &[u8]| -> Option<Vec<u8>> {
        let [10, length, rest @ ..] = bytes else { return None };
        rest.get(..usize::from(*length)).map(<[u8]>::to_vec)
    };
    String::from_utf8(field(&field(bytes)?)?).ok()
}
