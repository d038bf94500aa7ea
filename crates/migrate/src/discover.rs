//! The executables of a release's `migrations/` directory: which they are, by their names, and what they are, by their
//! digests. It must not run any.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use logic::migrate::Target;
use sha2::{Digest, Sha256};

use crate::error::RegistryError;

/// More files than this in one directory are a mistake, not migrations.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 1 << 30;

/// What a file name says: `appliance-3-rename-port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub target: Target,
    pub version: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("the name is not text")]
    NotText,
    #[error("the part before the first dash is neither appliance nor workload")]
    NoTarget,
    #[error("the part after the target is not the number of a version")]
    NoVersion,
}

impl Named {
    pub fn parse(name: &str) -> Result<Self, BadName> {
        let (target, rest) = name.split_once('-').ok_or(BadName::NoTarget)?;
        let target = target.parse().map_err(|_| BadName::NoTarget)?;
        let digits = rest.split(['-', '.']).next().unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadName::NoVersion);
        }
        let version = digits.parse().map_err(|_| BadName::NoVersion)?;
        Ok(Self { target, version })
    }
}

/// A file that is a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub named: Named,
    pub name: String,
    pub digest: String,
    pub path: PathBuf,
}

/// Everything in the directory, in the order of names. No directory: no migrations.
pub(crate) fn find(dir: &Path) -> Result<Vec<Found>, RegistryError> {
    let list = |source| RegistryError::List { dir: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(list(error)),
    };
    let mut paths = entries
        .take(MAX_FILES + 1)
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(list)?;
    if paths.len() > MAX_FILES {
        return Err(RegistryError::TooMany { dir: dir.to_owned(), limit: MAX_FILES });
    }
    paths.sort();
    paths.into_iter().map(identify).collect()
}

fn identify(path: PathBuf) -> Result<Found, RegistryError> {
    let read = |source| RegistryError::Read { path: path.clone(), source };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(BadName::NotText);
    let named = name.and_then(|name| Named::parse(name).map(|named| (named, name.to_owned())));
    let (named, name) = named.map_err(|source| RegistryError::BadName { path: path.clone(), source })?;
    // A link inside the directory is fine: what counts is what it leads to.
    let meta = fs::metadata(&path).map_err(read)?;
    if !meta.is_file() {
        return Err(RegistryError::NotAFile { path });
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(RegistryError::NotExecutable { path });
    }
    if meta.len() > MAX_BYTES {
        return Err(RegistryError::TooLarge { path, limit: MAX_BYTES });
    }
    let digest = digest_of(&path).map_err(read)?;
    Ok(Found { named, name, digest, path })
}

fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?.take(MAX_BYTES);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    let hex: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_target_and_version() {
        for (name, target, version) in [
            ("appliance-3", Target::Appliance, 3),
            ("appliance-3-rename-port", Target::Appliance, 3),
            ("workload-0012-x", Target::Workload, 12),
            ("workload-2.py", Target::Workload, 2),
        ] {
            assert_eq!(Named::parse(name), Ok(Named { target, version }), "{name}");
        }
        for (name, why) in [
            ("README", BadName::NoTarget),
            ("", BadName::NoTarget),
            ("Appliance-3", BadName::NoTarget),
            ("appliance-", BadName::NoVersion),
            ("appliance-three", BadName::NoVersion),
            ("appliance-3x", BadName::NoVersion),
            ("appliance-+3", BadName::NoVersion),
            ("appliance-99999999999", BadName::NoVersion),
        ] {
            assert_eq!(Named::parse(name), Err(why), "{name}");
        }
    }
}
