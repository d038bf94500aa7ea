//! Paths inside an image, and a small tree taken out of its layers.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::layers::{LayerError, for_each};

/// Marks what a layer removes from those below it.
const WHITEOUT: &[u8] = b".wh.";
/// In a directory: nothing of the layers below shows in it.
const OPAQUE: &[u8] = b".wh..wh..opq";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path {0:?} leads out of the image")]
    Climbs(String),
    #[error("the path {0:?} is too long")]
    TooLong(String),
}

const PATH_LIMIT: usize = 4096;

/// A path relative to the image's root, without `.` and `..`. Bytes, because that is what file names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePath(Vec<u8>);

/// Where an entry is, as seen from a file that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Itself,
    /// One of those that the file is in.
    Directory,
    /// The mark that the file, or a directory that it is in, is not in layers below.
    Removed,
    Elsewhere,
}

impl ImagePath {
    /// As written in an archive. Absolute paths and those with `..` are refused, wherever they lead.
    pub fn of_entry(bytes: &[u8]) -> Result<Self, PathError> {
        let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        if bytes.len() > PATH_LIMIT {
            return Err(PathError::TooLong(shown()));
        }
        if bytes.starts_with(b"/") || bytes.contains(&0) {
            return Err(PathError::Climbs(shown()));
        }
        let mut clean = Vec::with_capacity(bytes.len());
        for part in bytes.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => continue,
                b".." => return Err(PathError::Climbs(shown())),
                part => {
                    if !clean.is_empty() {
                        clean.push(b'/');
                    }
                    clean.extend_from_slice(part);
                }
            }
        }
        Ok(Self(clean))
    }

    /// As a person writes it: a leading `/` is the image's root.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::of_entry(text.trim_start_matches('/').as_bytes())
    }

    fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&self.0[..at], &self.0[at + 1..]),
            None => (b"", &self.0),
        }
    }

    /// Whether `self` is `directory` or in it. Everything is in the root.
    fn is_in(&self, directory: &[u8]) -> bool {
        directory.is_empty()
            || self.0.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    pub(crate) fn place_of(&self, entry: &Self) -> Place {
        if entry == self {
            return Place::Itself;
        }
        let (parent, name) = entry.split();
        let removed = match name.strip_prefix(WHITEOUT) {
            Some(_) if name == OPAQUE => Some(parent.to_vec()),
            Some(hidden) => Some(joined(parent, hidden)),
            None => None,
        };
        match removed {
            Some(removed) if self.is_in(&removed) => Place::Removed,
            Some(_) => Place::Elsewhere,
            None if self.is_in(&entry.0) && !entry.0.is_empty() => Place::Directory,
            None => Place::Elsewhere,
        }
    }

    #[cfg(unix)]
    fn under(&self, root: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        root.join(std::ffi::OsStr::from_bytes(&self.0))
    }
}

fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}

impl fmt::Display for ImagePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// What extracting has used up so far, over all layers of an image.
#[derive(Debug, Clone, Copy)]
pub struct TreeBudget {
    pub bytes: u64,
    pub files: usize,
}

/// Puts the regular files and directories of one layer, over those of the layers before it, into `root`. Links and
/// devices are left out, and hide what they replace; so there is never a link to be followed. A removal holds for what
/// is there when it is met: writers of layers put removals first.
pub(crate) fn extract(
    layer: impl Read,
    root: &Path,
    layer_limit: u64,
    budget: &mut TreeBudget,
) -> Result<(), LayerError> {
    let total = *budget;
    for_each(layer, layer_limit, |path, entry| {
        let (parent, name) = path.split();
        if name.is_empty() {
            return Ok(());
        }
        let failed = |source: io::Error| LayerError::Write { path: path.to_string(), source };
        if name == OPAQUE {
            let directory = ImagePath(parent.to_vec()).under(root);
            return emptied(&directory).map_err(failed);
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            let hidden = ImagePath::of_entry(&joined(parent, hidden))?;
            return gone(&hidden.under(root)).map_err(failed);
        }
        let target = path.under(root);
        if !entry.is_dir() {
            gone(&target).map_err(failed)?;
        } else if !target.is_dir() {
            budget.files = budget.files.checked_sub(1).ok_or(LayerError::Files { limit: total.files })?;
            gone(&target).and_then(|()| fs::create_dir_all(&target)).map_err(failed)?;
        }
        if entry.is_file() {
            budget.files = budget.files.checked_sub(1).ok_or(LayerError::Files { limit: total.files })?;
            let content = entry.content(path, budget.bytes)?;
            budget.bytes -= content.len() as u64;
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            let mut file = fs::File::create_new(&target).map_err(failed)?;
            file.write_all(&content).map_err(failed)?;
        }
        Ok(())
    })
}

fn gone(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        other => other,
    }
}

pub(crate) fn emptied(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        gone(&entry?.path())?;
    }
    Ok(())
}
