//! Secrets at rest: sealed with a key that lies outside of what a snapshot captures.
//!
//! In memory a secret is `{"$secret": TEXT}`, on disk the text is sealed. A key is made for each configuration that an
//! upgrade writes, so that an upgrade rotates it; the key of a rollback point stays as long as the point does.

use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Layout;

/// The one key of a map that is a secret.
pub const MARK: &str = "$secret";
const KEY_BYTES: usize = 32;
/// Maps in maps: deeper ones are refused.
const DEPTH: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the key {id} of the secrets is not there")]
    NoKey { id: KeyId },
    #[error("the key {id} of the secrets is damaged")]
    BadKey { id: KeyId },
    #[error("the secret {path} cannot be opened with the key {id}")]
    Sealed { path: String, id: KeyId },
    #[error("{path} is no secret: a secret is a map with the one key {MARK}, and a text")]
    Form { path: String },
    #[error("{path} lies too deep")]
    TooDeep { path: String },
    #[error("this machine gives no random numbers")]
    Random,
    #[error("the keys cannot be kept")]
    Disk(#[from] disk::Error),
}

/// Names a key; says nothing about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyId(String);

impl TryFrom<String> for KeyId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let plain = !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        if plain { Ok(Self(text)) } else { Err("a key's name has hexadecimal digits only".to_owned()) }
    }
}

impl From<KeyId> for String {
    fn from(id: KeyId) -> Self {
        id.0
    }
}

impl std::fmt::Display for KeyId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

pub struct Key {
    pub id: KeyId,
    key: LessSafeKey,
}

pub fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}

impl Key {
    /// A new one, on disk when this returns.
    pub fn make(layout: &Layout) -> Result<Self, Error> {
        let bytes = random::<KEY_BYTES>()?;
        let id = KeyId(random::<8>()?.iter().map(|byte| format!("{byte:02x}")).collect());
        let dir = layout.keys();
        let failed = |operation, path: &Path, source| disk::Error::io(operation, path, source);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|e| failed(disk::Operation::Create, &dir, e))?;
        // Not even for an instant may others read it: the file is made with its mode, and under its final name only
        // when it is whole.
        let (temporary, path) = (dir.join(format!("{id}.new")), dir.join(&id.0));
        let written =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).and_then(
                |mut file| {
                    std::io::Write::write_all(&mut file, BASE64.encode(bytes).as_bytes())?;
                    file.sync_all()
                },
            );
        written.map_err(|e| failed(disk::Operation::Write, &temporary, e))?;
        disk::durable::rename_durably(&temporary, &path)?;
        Self::from_bytes(id, &bytes)
    }

    pub fn load(layout: &Layout, id: &KeyId) -> Result<Self, Error> {
        let text = disk::durable::read_limited(&layout.keys().join(&id.0), 1024)?
            .ok_or_else(|| Error::NoKey { id: id.clone() })?;
        let bytes = BASE64.decode(text.trim_ascii()).map_err(|_| Error::BadKey { id: id.clone() })?;
        Self::from_bytes(id.clone(), &bytes)
    }

    fn from_bytes(id: KeyId, bytes: &[u8]) -> Result<Self, Error> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, bytes).map_err(|_| Error::BadKey { id: id.clone() })?;
        Ok(Self { id, key: LessSafeKey::new(key) })
    }

    /// `values` with every secret sealed.
    pub fn seal(&self, values: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        each_secret(values, &|path, text| {
            let nonce = random::<NONCE_LEN>()?;
            let mut bytes = text.as_bytes().to_vec();
            self.key
                .seal_in_place_append_tag(
                    Nonce::assume_unique_for_key(nonce),
                    Aad::from(path.as_bytes()),
                    &mut bytes,
                )
                .map_err(|_| Error::Sealed { path: path.to_owned(), id: self.id.clone() })?;
            Ok(BASE64.encode([&nonce[..], &bytes].concat()))
        })
    }

    /// `values` with every secret opened.
    pub fn open(&self, values: &Map<String, Value>) -> Result<Map<String, Value>, Error> {
        each_secret(values, &|path, text| {
            let sealed = || Error::Sealed { path: path.to_owned(), id: self.id.clone() };
            let bytes = BASE64.decode(text).map_err(|_| sealed())?;
            let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>().ok_or_else(sealed)?;
            let mut rest = rest.to_vec();
            let plain = self
                .key
                .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(path.as_bytes()), &mut rest)
                .map_err(|_| sealed())?;
            String::from_utf8(plain.to_vec()).map_err(|_| sealed())
        })
    }
}

/// The text of a secret, where a value is one.
pub fn secret(value: &Value) -> Option<&str> {
    value.as_object().filter(|map| map.len() == 1)?.get(MARK)?.as_str()
}

type Change<'a> = dyn Fn(&str, &str) -> Result<String, Error> + 'a;

fn each_secret(values: &Map<String, Value>, change: &Change<'_>) -> Result<Map<String, Value>, Error> {
    let mut out = Map::new();
    for (key, value) in values {
        out.insert(key.clone(), changed(key.clone(), value, change, DEPTH)?);
    }
    Ok(out)
}

fn changed(path: String, value: &Value, change: &Change<'_>, depth: usize) -> Result<Value, Error> {
    if depth == 0 {
        return Err(Error::TooDeep { path });
    }
    match value {
        Value::Object(map) if map.contains_key(MARK) => {
            let text = secret(value).ok_or_else(|| Error::Form { path: path.clone() })?;
            Ok(serde_json::json!({ MARK: change(&path, text)? }))
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                Ok((key.clone(), changed(format!("{path}.{key}"), value, change, depth - 1)?))
            });
            entries.collect::<Result<Map<String, Value>, Error>>().map(Value::Object)
        }
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let items = items.map(|(at, value)| changed(format!("{path}[{at}]"), value, change, depth - 1));
            items.collect::<Result<Vec<Value>, Error>>().map(Value::Array)
        }
        plain => Ok(plain.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key() -> Key {
        Key::from_bytes(KeyId("00".to_owned()), &[7; KEY_BYTES]).unwrap()
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn secrets_are_sealed_wherever_they_are_and_nothing_else_is() {
        let plain = map(json!({"a": {MARK: "hush"}, "b": {"c": [{MARK: "hush"}, 1]}, "d": "open"}));
        let sealed = key().seal(&plain).unwrap();
        let text = serde_json::to_string(&sealed).unwrap();
        assert!(!text.contains("hush") && text.contains("open"), "{text}");
        assert_ne!(sealed["a"], sealed["b"]["c"][0], "the same secret looks different each time");
        assert_eq!(key().open(&sealed).unwrap(), plain);
    }

    #[test]
    fn a_secret_that_was_moved_changed_or_sealed_with_another_key_is_refused() {
        let sealed = key().seal(&map(json!({"a": {MARK: "hush"}}))).unwrap();
        let moved = map(json!({"b": sealed["a"]}));
        assert!(matches!(key().open(&moved), Err(Error::Sealed { .. })));
        let other = Key::from_bytes(KeyId("01".to_owned()), &[8; KEY_BYTES]).unwrap();
        assert!(matches!(other.open(&sealed), Err(Error::Sealed { .. })));
        for bad in [json!({MARK: 1}), json!({MARK: "!"}), json!({MARK: "QUJD", "x": 1})] {
            assert!(key().open(&map(json!({"a": bad}))).is_err());
        }
    }
}
