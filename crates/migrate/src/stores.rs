//! Stores: files beside the values, migrated by copy. Version n writes `metadata.vn` and never changes `metadata.v(n-1)`,
//! so that the old program still works with what it has.
//!
//! A new file waits in the scratch directory until the whole path is done; then it is moved to its place. A file that is
//! there already is never replaced.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use disk::durable::{rename_durably, sync_dir};

use crate::options::Limits;
use crate::run::Migrated;

/// More entries than this in a directory of stores are not looked at.
const MAX_ENTRIES: usize = 100_000;

/// A store file that a migration made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStore {
    /// `metadata.v3`.
    pub name: String,
    /// The version whose migration made it.
    pub version: u32,
    /// Where it waits.
    pub staged: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("can't look at the stores in {}", dir.display())]
    List { dir: PathBuf, source: io::Error },
    #[error("{name} is not named after its version: expected a name that ends with .v{version}")]
    BadName { name: String, version: u32 },
    #[error("{name} is not a regular file")]
    NotAFile { name: String },
    #[error("{name} has {bytes} bytes, more than {limit}")]
    TooLarge { name: String, bytes: u64, limit: u64 },
    #[error("there are more than {limit} new store files")]
    TooMany { limit: usize },
    #[error("{} exists already, with another content", path.display())]
    Exists { path: PathBuf },
    #[error("can't bring {name} to its place")]
    Install { name: String, source: io::Error },
    #[error("can't keep {name} safely")]
    Keep { name: String, source: disk::Error },
}

impl StoreError {
    pub fn hint(&self) -> String {
        match self {
            Self::List { dir, .. } => format!("see that {} can be read", dir.display()),
            Self::BadName { version, .. } => {
                format!(
                    "let the migration write <store>.v{version} and nothing else into its stores directory"
                )
            }
            Self::NotAFile { .. } => "let the migration leave regular files only".to_owned(),
            Self::TooLarge { .. } | Self::TooMany { .. } => {
                "raise the limit if the migration needs that much".to_owned()
            }
            Self::Exists { path } => format!(
                "a migration that was not finished left {}; move it away if nothing uses it",
                path.display()
            ),
            Self::Install { .. } | Self::Keep { .. } => {
                "see that the directory of the stores can be written and its disk is not full".to_owned()
            }
        }
    }
}

/// The stores as they are while a path is walked.
pub(crate) struct Stores<'a> {
    original: Option<&'a Path>,
    pub made: Vec<NewStore>,
}

impl<'a> Stores<'a> {
    pub fn new(original: Option<&'a Path>) -> Self {
        Self { original, made: vec![] }
    }

    /// A directory that shows the stores of the data and those made since; `at` is where it may be put together.
    pub fn view(&self, at: &Path) -> io::Result<Option<PathBuf>> {
        if self.made.is_empty() {
            return self.original.map(std::path::absolute).transpose();
        }
        fs::create_dir_all(at)?;
        if let Some(original) = self.original {
            for entry in fs::read_dir(original)?.take(MAX_ENTRIES) {
                let entry = entry?;
                // What was made since is newer than a leftover of the same name.
                if !self.made.iter().any(|made| entry.file_name() == *made.name) {
                    symlink(std::path::absolute(entry.path())?, at.join(entry.file_name()))?;
                }
            }
        }
        for made in &self.made {
            symlink(std::path::absolute(&made.staged)?, at.join(&made.name))?;
        }
        std::path::absolute(at).map(Some)
    }

    /// Where the files really are that a view shows.
    pub fn places(&self) -> Vec<PathBuf> {
        let made = self.made.iter().filter_map(|made| made.staged.parent());
        let mut places: Vec<_> = self.original.into_iter().chain(made).map(Path::to_owned).collect();
        places.dedup();
        places
    }

    /// Takes what a migration left in its `stores` directory; says the names.
    pub fn collect(&mut self, dir: &Path, version: u32, limits: &Limits) -> Result<Vec<String>, StoreError> {
        let list = |source| StoreError::List { dir: dir.to_owned(), source };
        let mut found = Vec::new();
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // Its own directory is its own to tidy.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(list(error)),
        };
        for entry in entries {
            let entry = entry.map_err(list)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let stem = name.strip_suffix(&format!(".v{version}"));
            if entry.file_name() != *name || stem.is_none_or(str::is_empty) {
                return Err(StoreError::BadName { name, version });
            }
            let meta = entry.metadata().map_err(list)?;
            if !meta.is_file() {
                return Err(StoreError::NotAFile { name });
            }
            if meta.len() > limits.store {
                return Err(StoreError::TooLarge { name, bytes: meta.len(), limit: limits.store });
            }
            if found.len() == limits.stores {
                return Err(StoreError::TooMany { limit: limits.stores });
            }
            found.push(NewStore { name, version, staged: entry.path() });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let names = found.iter().map(|store| store.name.clone()).collect();
        self.made.extend(found);
        Ok(names)
    }
}

impl Migrated {
    /// Moves the new store files into `dir`, durably. A file of that name with the same content is as good as the new
    /// one (an earlier attempt was interrupted here); with another content it is left alone, and that is an error.
    pub fn install_stores(&self, dir: &Path) -> Result<(), StoreError> {
        for store in &self.stores {
            let keep = |source| StoreError::Keep { name: store.name.clone(), source };
            let install = |source| StoreError::Install { name: store.name.clone(), source };
            let to = dir.join(&store.name);
            let staged = match File::open(&store.staged) {
                Ok(staged) => staged,
                // Moved by a call before this one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && to.is_file() => continue,
                Err(error) => return Err(install(error)),
            };
            staged.sync_all().map_err(install)?;
            match rename_durably(&store.staged, &to) {
                Ok(()) => {}
                Err(disk::Error::Exists { path }) => {
                    if !same_content(&staged, &path).map_err(install)? {
                        return Err(StoreError::Exists { path });
                    }
                    let _ = fs::remove_file(&store.staged);
                    File::open(&path).and_then(|file| file.sync_all()).map_err(install)?;
                    sync_dir(dir).map_err(keep)?;
                }
                Err(error) if error.is_cross_device() => {
                    copy_over(&store.staged, &to).map_err(|error| match error {
                        disk::Error::Exists { path } => StoreError::Exists { path },
                        other => keep(other),
                    })?;
                }
                Err(error) => return Err(keep(error)),
            }
        }
        Ok(())
    }
}

/// From another file system: beside its place first, then by one rename.
fn copy_over(from: &Path, to: &Path) -> disk::Result<()> {
    let mut beside = to.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    disk::durable::write_durably_with(&beside, |file| {
        io::copy(&mut File::open(from)?, file)?;
        file.set_permissions(fs::metadata(from)?.permissions())
    })?;
    let moved = match rename_durably(&beside, to) {
        Err(disk::Error::Exists { path })
            if File::open(&beside).and_then(|new| same_content(&new, &path)).unwrap_or(false) =>
        {
            Ok(())
        }
        other => other,
    };
    let _ = fs::remove_file(&beside);
    if moved.is_ok() {
        let _ = fs::remove_file(from);
    }
    moved
}

fn same_content(a: &File, b: &Path) -> io::Result<bool> {
    let meta = fs::symlink_metadata(b)?;
    if !meta.is_file() || meta.len() != a.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) =
        (io::BufReader::with_capacity(1 << 16, a), io::BufReader::with_capacity(1 << 16, File::open(b)?));
    let (mut left, mut right) = ([0; 4096], [0; 4096]);
    loop {
        let count = a.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        b.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}
