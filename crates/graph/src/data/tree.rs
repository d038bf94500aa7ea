//! The files of one graph-data tree, in memory and within limits. Whether they come from a directory, a commit or an
//! image makes no difference from here on.

use std::collections::BTreeMap;

use logic::graph::{Notes, Place};

use super::DataError;
use crate::settings::Limits;

/// Paths, as in the tree, and contents.
#[derive(Debug, Default)]
pub struct Tree {
    pub files: BTreeMap<String, Vec<u8>>,
    /// What was passed over while they were collected.
    pub notes: Notes,
    bytes: u64,
}

/// What a path means in the public layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Version,
    Channel,
    Block,
    Raw,
    /// In one of the directories, but nothing that is read there; and why.
    Stray(&'static str),
    /// Somebody else's: documents, scripts.
    Other,
}

impl Kind {
    pub fn of(path: &str) -> Self {
        if path.rsplit('/').next().is_some_and(|name| name.starts_with('.')) {
            return Self::Other;
        }
        match path.split_once('/') {
            None if path == "version" => Self::Version,
            Some(("raw", "metadata.json")) => Self::Raw,
            Some(("raw", _)) => Self::Stray("only raw/metadata.json is read"),
            Some((folder @ ("channels" | "blocked-edges"), name)) => {
                if name.contains('/') {
                    Self::Stray("files in directories below are not read")
                } else if !matches!(name.rsplit_once('.'), Some((_, "yaml" | "yml"))) {
                    Self::Stray("only files that end in .yaml or .yml are read")
                } else if folder == "channels" {
                    Self::Channel
                } else {
                    Self::Block
                }
            }
            _ => Self::Other,
        }
    }

    pub fn is_read(self) -> bool {
        !matches!(self, Self::Stray(_) | Self::Other)
    }
}

impl Tree {
    /// Whether there is room for one more file of so many bytes. Beyond the limits the whole tree is refused: with some
    /// of its blocks left out it would let clients go where they must not.
    pub fn admit(&self, path: &str, size: u64, limits: &Limits) -> Result<(), DataError> {
        if self.files.len() >= limits.graph_data_files {
            return Err(DataError::TooManyFiles(limits.graph_data_files));
        }
        if self.bytes.saturating_add(size) > limits.graph_data_bytes {
            return Err(DataError::TooLarge { path: path.to_owned(), limit: limits.graph_data_bytes });
        }
        Ok(())
    }

    pub fn insert(&mut self, path: String, content: Vec<u8>) {
        self.bytes += content.len() as u64;
        if let Some(before) = self.files.insert(path, content) {
            self.bytes -= before.len() as u64;
        }
    }

    /// A file that is in one of the directories, and not read.
    pub fn stray(&mut self, path: &str, why: &str) {
        let place = Place::File { path: path.to_owned(), line: None };
        self.notes.warning("stray-file", place, format!("it is passed over: {why}"));
    }

    /// The same for the same files and contents, whatever order they were found in.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (path, content) in &self.files {
            // With lengths, so that no content can pass for a path.
            hasher.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes());
            hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
        }
        for note in self.notes.iter() {
            hasher.update(note.to_string().as_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_what_the_layout_says() {
        for (path, kind) in [
            ("version", Kind::Version),
            ("channels/stable-4.16.yaml", Kind::Channel),
            ("channels/a.yml", Kind::Channel),
            ("blocked-edges/4.16.1.yaml", Kind::Block),
            ("raw/metadata.json", Kind::Raw),
            ("README.md", Kind::Other),
            ("docs/channels/x.yaml", Kind::Other),
            ("channels/.stable.yaml", Kind::Other),
        ] {
            assert_eq!(Kind::of(path), kind, "{path}");
        }
        for path in ["channels/a.json", "channels/b/c.yaml", "raw/other.json", "blocked-edges/yaml"] {
            assert!(matches!(Kind::of(path), Kind::Stray(_)), "{path}");
        }
    }

    #[test]
    fn a_tree_beyond_its_limits_is_refused_as_a_whole() {
        let limits = Limits { graph_data_bytes: 10, graph_data_files: 2, ..Limits::default() };
        let mut tree = Tree::default();
        assert!(tree.admit("a", 11, &limits).is_err());
        assert!(tree.admit("a", u64::MAX, &limits).is_err());
        tree.insert("a".into(), vec![0; 6]);
        assert!(tree.admit("b", 5, &limits).is_err());
        tree.insert("a".into(), vec![0; 2]);
        assert!(tree.admit("b", 8, &limits).is_ok());
        tree.insert("b".into(), vec![0; 8]);
        assert!(tree.admit("c", 0, &limits).is_err());
    }
}
