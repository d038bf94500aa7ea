//! Paths inside an image, and the names by which a layer removes what is below it.

use std::fmt;

/// Marks what a layer removes from those below it.
pub(crate) const WHITEOUT: &[u8] = b".wh.";
/// In a directory: nothing of the layers below shows in it.
pub(crate) const OPAQUE: &[u8] = b".wh..wh..opq";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("the path {0:?} leads out of the image")]
    Climbs(String),
    #[error("the path {0:?} is too long")]
    TooLong(String),
    #[error("the path {0:?} leads through a link to nothing")]
    Nowhere(String),
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

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
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
        let (parent, name) = split(&entry.0);
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
}

/// The directory and the name in it.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
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
