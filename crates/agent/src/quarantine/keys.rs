//! Whom the machine trusts: keys in files, and those of the release that runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use semver::Version;
use trust::keyring::{KeyError, Keyring, Keyrings};

use super::carried::{RELEASE_KEYS, ReleaseKeys};

/// Whom to trust. Each path is a keyring, the keys of the running release are one, and all of them must agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// A file of keys, or a directory of such files, which is one keyring.
    pub keys: Vec<PathBuf>,
    /// None: it carries none.
    pub running: Option<RunningKeys>,
    /// Images that nobody signed are taken; keys are not looked at.
    pub unsigned: bool,
}

/// The keys of the running release: of those who may say what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunningKeys {
    /// It stands there, with its keys: a directory, which is one keyring.
    At(PathBuf),
    /// They were kept when it was applied.
    Kept { of: Version, keys: ReleaseKeys },
}

#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: disk::Error },
    #[error("{} holds no keys", path.display())]
    Key { path: PathBuf, source: Box<KeyError> },
    #[error("there is no key in {}", path.display())]
    Empty { path: PathBuf },
    #[error("{} holds more than {FILES} files", path.display())]
    TooMany { path: PathBuf },
    #[error("{} is no plain file or directory", path.display())]
    NotPlain { path: PathBuf },
    #[error("with {} there are more than {limit} bytes of keys", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("there are no keys in {file}, as it was kept of release {of}")]
    Kept { of: Version, file: String, source: Box<KeyError> },
}

impl KeysError {
    pub fn way_out(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::File { .. } => {
                "see that it is there and may be read, or change keys in [agent]"
            }
            Self::Key { .. } => {
                "write OpenPGP keys (`gpg --export --armor NAME`) or a public key in PEM (`cosign public-key`) there"
            }
            Self::Empty { .. } => "put a key there, or take it out of keys in [agent]",
            Self::TooMany { .. } => "keep keys, and nothing else, in a directory of their own",
            Self::NotPlain { .. } => "put the files themselves there, and no links",
            Self::TooLarge { .. } => {
                "export keys without the signatures of others: `gpg --export-options export-minimal`"
            }
            Self::Kept { .. } => {
                "take status.rollout.running.keys out of the ClusterVersion: only configured keys count then"
            }
        }
    }
}

/// Of one keyring.
pub(super) const FILES: usize = 256;
const FILE_BYTES: u64 = 4 << 20;

impl Trust {
    /// None: everybody is trusted.
    pub(super) fn keyrings(&self) -> Result<Option<Keyrings>, KeysError> {
        if self.unsigned {
            return Ok(None);
        }
        let configured = self.keys.iter().map(|path| keyring(path));
        let rings: Result<Vec<_>, _> =
            configured.chain(self.running.iter().map(RunningKeys::keyring)).collect();
        Ok(Some(Keyrings(rings?)))
    }
}

impl RunningKeys {
    fn keyring(&self) -> Result<Keyring, KeysError> {
        match self {
            Self::At(path) => keyring(path),
            Self::Kept { of, keys } => keys
                .keyring(format!("{RELEASE_KEYS} of {of}"))
                .map_err(|(file, source)| KeysError::Kept { of: of.clone(), file, source }),
        }
    }
}

fn keyring(path: &Path) -> Result<Keyring, KeysError> {
    let read = |source| KeysError::Read { path: path.to_owned(), source };
    let mut files = vec![path.to_owned()];
    if fs::metadata(path).map_err(read)?.is_dir() {
        files.clear();
        for entry in fs::read_dir(path).map_err(read)? {
            let entry = entry.map_err(read)?;
            // What is hidden is some tool's own.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if files.len() >= FILES {
                return Err(KeysError::TooMany { path: path.to_owned() });
            }
            files.push(entry.path());
        }
        files.sort();
    }
    let mut ring = Keyring::new(path.display().to_string());
    for path in files {
        let content = match disk::durable::read_limited(&path, FILE_BYTES) {
            Ok(Some(content)) => content,
            Ok(None) => return Err(KeysError::Read { path, source: io::ErrorKind::NotFound.into() }),
            Err(source) => return Err(KeysError::File { path, source }),
        };
        ring.add(&content).map_err(|source| KeysError::Key { path, source: Box::new(source) })?;
    }
    if ring.is_empty() { Err(KeysError::Empty { path: path.to_owned() }) } else { Ok(ring) }
}
