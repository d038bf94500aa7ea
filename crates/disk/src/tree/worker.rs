//! What one thread gathers while it copies, and its room to work in. Holds no logic but adding up.

use super::attributes::Scratch;
use super::copy::{WARNING_LIMIT, Warning};
use super::manifest::Entry;
use super::meta::Meta;

#[derive(Default)]
pub(crate) struct Tally {
    pub files: u64,
    pub bytes: u64,
    pub bytes_written: u64,
    pub shared: u64,
    pub written: u64,
    pub left_alone: u64,
}

/// What one thread has gathered, and its room to work in.
pub(crate) struct Worker {
    pub entries: Vec<Entry>,
    pub directories: Vec<(Vec<u8>, Meta)>,
    /// Names of inodes that have several: device, inode, path.
    pub linked: Vec<(u64, u64, Vec<u8>)>,
    pub warnings: Vec<Warning>,
    pub warnings_left_out: u64,
    pub tally: Tally,
    pub scratch: Option<Scratch>,
    pub buffer: Vec<u8>,
    /// Bytes done that progress has not been told of.
    pub pending: u64,
}

impl Worker {
    pub fn new() -> Worker {
        Worker {
            entries: Vec::new(),
            directories: Vec::new(),
            linked: Vec::new(),
            warnings: Vec::new(),
            warnings_left_out: 0,
            tally: Tally::default(),
            scratch: None,
            buffer: Vec::new(),
            pending: 0,
        }
    }

    pub fn absorb(&mut self, mut other: Worker) {
        self.entries.append(&mut other.entries);
        self.directories.append(&mut other.directories);
        self.linked.append(&mut other.linked);
        self.warnings_left_out += other.warnings_left_out;
        other.warnings.into_iter().for_each(|w| self.warn(w));
        let (a, b) = (&mut self.tally, other.tally);
        a.files += b.files;
        a.bytes += b.bytes;
        a.bytes_written += b.bytes_written;
        a.shared += b.shared;
        a.written += b.written;
        a.left_alone += b.left_alone;
    }

    pub fn warn(&mut self, warning: Warning) {
        push_warning(&mut self.warnings, &mut self.warnings_left_out, warning);
    }
}

pub(crate) fn push_warning(list: &mut Vec<Warning>, left_out: &mut u64, warning: Warning) {
    if list.len() < WARNING_LIMIT { list.push(warning) } else { *left_out += 1 }
}
