//! What a copy consists of: one record per entry, of the source as it was copied and of the copy itself.
//!
//! Lives beside the copy, never in it. Holds no logic but lookup; the file format is in `manifest_file`.

use super::meta::{Kind, Meta, Time};

/// BLAKE3 of a file's content or of a link's target.
pub type Hash = [u8; 32];

/// An inode at a moment: as long as both are the same, nobody has changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    pub ino: u64,
    pub ctime: Time,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From the root of the tree, which itself is the empty path. Bytes, as the file system has them.
    pub path: Box<[u8]>,
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Of a file its length, of a link that of its target, of a device its number; otherwise 0.
    pub size: u64,
    pub mtime: Time,
    pub source: Seen,
    pub copy: Seen,
    pub hash: Option<Hash>,
}

impl Entry {
    pub(crate) fn new(path: Vec<u8>, source: &Meta, copy: &Meta) -> Entry {
        Entry {
            path: path.into_boxed_slice(),
            kind: copy.kind,
            mode: copy.mode,
            uid: copy.uid,
            gid: copy.gid,
            size: copy.recorded_size(),
            mtime: copy.mtime,
            source: source.seen(),
            copy: copy.seen(),
            hash: None,
        }
    }

    /// Whether `meta` has the kind, size, mode and owner of this entry.
    pub(crate) fn describes(&self, meta: &Meta) -> bool {
        self.kind == meta.kind
            && self.size == meta.recorded_size()
            && self.mode == meta.mode
            && (self.uid, self.gid) == (meta.uid, meta.gid)
    }
}

impl Meta {
    pub(crate) fn seen(&self) -> Seen {
        Seen { ino: self.ino, ctime: self.ctime }
    }
}

/// Entries sorted by path, each path once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// When copying began. An entry whose source changed shortly before may have changed once more
    /// without a trace, so it is not trusted to be unchanged.
    pub started: Time,
    entries: Vec<Entry>,
}

impl Manifest {
    pub fn new(started: Time, mut entries: Vec<Entry>) -> Manifest {
        entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        entries.dedup_by(|a, b| a.path == b.path);
        entries.shrink_to_fit();
        Manifest { started, entries }
    }

    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.entries
    }

    pub fn get(&self, path: &[u8]) -> Option<&Entry> {
        self.position(path).and_then(|i| self.entries.get(i))
    }

    pub(crate) fn position(&self, path: &[u8]) -> Option<usize> {
        self.entries.binary_search_by(|e| e.path.as_ref().cmp(path)).ok()
    }

    /// Whether every file and link has a hash of its content.
    pub fn is_sealed(&self) -> bool {
        self.entries.iter().all(|e| e.hash.is_some() || !matches!(e.kind, Kind::File | Kind::Symlink))
    }

    /// Files and links, and bytes in files.
    pub fn totals(&self) -> (u64, u64) {
        let files = self.entries.iter().filter(|e| e.kind != Kind::Directory).count() as u64;
        let bytes = self.entries.iter().filter(|e| e.kind == Kind::File).map(|e| e.size).sum();
        (files, bytes)
    }
}
