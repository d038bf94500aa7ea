//! The keys that a release carries, of those who may say what follows it: `release-keys/`, one keyring. They are read before the
//! release is applied: with keys that can't be used, nothing could follow it any more.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use trust::keyring::{KeyError, Keyring};

use super::inside::{self, Inside};
use super::keys::{FILES, KeysError};

/// Where they are in a release.
pub const RELEASE_KEYS: &str = "release-keys";
/// All of them. A cluster keeps them in an object of its API, of which all together must be far less than a megabyte; keys without the
/// signatures of strangers on them are a few thousand bytes each.
const BYTES: u64 = 128 << 10;

/// Files by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReleaseKeys(pub BTreeMap<String, Vec<u8>>);

impl ReleaseKeys {
    /// None: the release carries none. Otherwise there is a key in them, and every file holds keys.
    pub(super) fn read(tree: &Path) -> Result<Option<Self>, KeysError> {
        let directory = Path::new(RELEASE_KEYS);
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |error| match error {
                Inside::Missing | Inside::Other => KeysError::NotPlain { path },
                Inside::TooLong => KeysError::TooLarge { path, limit: BYTES },
                Inside::Read(source) => KeysError::Read { path, source },
            }
        };
        if !inside::is_directory(tree, directory).map_err(refused(directory))? {
            return Ok(None);
        }
        let read = |source| KeysError::Read { path: directory.to_owned(), source };
        let (mut files, mut left) = (BTreeMap::new(), BYTES);
        for entry in fs::read_dir(tree.join(directory)).map_err(read)? {
            let name = entry.map_err(read)?.file_name();
            // What is hidden is some tool's own.
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = directory.join(&name);
            if files.len() >= FILES {
                return Err(KeysError::TooMany { path: directory.to_owned() });
            }
            let content = inside::file(tree, &path, left).map_err(refused(&path))?;
            left -= content.len() as u64;
            let Ok(name) = name.into_string() else { return Err(KeysError::NotPlain { path }) };
            files.insert(name, content);
        }
        let keys = Self(files);
        let unusable = |(name, source)| KeysError::Key { path: directory.join(name), source };
        match keys.keyring(String::new()).map_err(unusable)?.is_empty() {
            true => Err(KeysError::Empty { path: directory.to_owned() }),
            false => Ok(Some(keys)),
        }
    }

    /// Where it can't be made, the file that is at fault.
    pub(super) fn keyring(&self, name: String) -> Result<Keyring, (String, Box<KeyError>)> {
        let mut ring = Keyring::new(name);
        for (file, content) in &self.0 {
            ring.add(content).map_err(|source| (file.clone(), Box::new(source)))?;
        }
        Ok(ring)
    }
}
