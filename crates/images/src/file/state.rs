//! What is known of one image on one disk, and what others are told of it.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use logic::images::{Chunk, ChunkList, Held, ListError, Seal};

use super::config::Config;
use super::donors::Donors;
use super::log::{Log, Stamp};
use super::record::About;
use super::room::Reservation;

/// How far an image is, as [`super::ImageFile::filled`] tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filled {
    /// Grows when the origin turned out to have changed, and all began again.
    pub generation: u64,
    /// Chunks that are known of.
    pub listed: usize,
    /// Chunks that are here, verified.
    pub held: usize,
    /// Of those, in bytes.
    pub bytes: u64,
    /// Of the whole, once somebody said it; only the seal proves it.
    pub total: Option<u64>,
    pub sealed: bool,
    /// All of it is here and adds up to its seal. Only now may it be used.
    pub downloaded: bool,
    /// The file was touched since: it counts as nothing until it is verified again.
    pub checking: bool,
}

/// The chunks, and which of them are here.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub list: ChunkList,
    pub held: Held,
    pub bytes: u64,
}

impl Body {
    pub(super) fn new(list: ChunkList, held: Held) -> Self {
        let length = |chunk: &Chunk| u64::from(chunk.length);
        let bytes = held.iter().filter_map(|index| list.get(index)).map(|chunk| length(&chunk)).sum();
        Self { list, held, bytes }
    }

    pub(super) fn hold(&mut self, chunks: Range<usize>) {
        for index in chunks {
            if let Some(chunk) = self.list.get(index)
                && self.held.insert(index)
            {
                self.bytes += u64::from(chunk.length);
            }
        }
    }

    pub(super) fn drop_chunk(&mut self, index: usize) -> bool {
        let there = self.held.remove(index);
        if there {
            self.bytes -= self.list.get(index).map_or(0, |chunk| u64::from(chunk.length));
        }
        there
    }

    pub(super) fn push(&mut self, chunks: &[Chunk]) -> Result<(), ListError> {
        chunks.iter().try_for_each(|chunk| self.list.push(*chunk))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.held.count() == self.list.len()
    }
}

/// What is needed to write: the lock keeps other managers of this disk from it.
#[derive(Debug)]
pub(super) struct Writer {
    /// Of the directory; ends with this.
    pub _lock: File,
    pub log: Log,
    pub data: Arc<File>,
    /// Bytes of the file that have room on the disk.
    pub allocated: u64,
    pub room: Option<Reservation>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub generation: u64,
    pub about: About,
    /// `None` for a whole image whose chunks nobody asked for lately.
    pub body: Option<Body>,
    pub seal: Option<Seal>,
    /// There is a whole image, and this is what it is.
    pub whole: Option<Config>,
    /// It was whole, and was touched since.
    pub touched: Option<Config>,
    /// How the log was when it was read.
    pub stamp: Option<Stamp>,
    pub writer: Option<Writer>,
    /// For reading, where there is no writer.
    pub reading: Option<Arc<File>>,
    /// Written, and not yet on the disk.
    pub unsynced: Vec<Range<usize>>,
    pub unsynced_bytes: u64,
    /// Being synced right now, in bytes.
    pub syncing: u64,
    /// Why syncing failed, as an error number: told to the next one who writes.
    pub sync_failure: Option<i32>,
    /// Nobody has the image file any more.
    pub closed: bool,
    pub used: Option<Instant>,
    /// Chunks before this one were looked for in other images.
    pub looked_for: usize,
    pub donors: Option<Arc<Donors>>,
}

impl State {
    pub(super) fn filled(&self) -> Filled {
        let total = self.seal.as_ref().map(|seal| seal.size).or(self.about.total);
        let (listed, held, bytes) = match (&self.body, &self.whole) {
            (_, Some(config)) => (config.chunks, config.chunks, config.seal.size),
            (Some(body), None) => (body.list.len(), body.held.count(), body.bytes),
            (None, None) => (0, 0, 0),
        };
        Filled {
            generation: self.generation,
            listed,
            held,
            bytes,
            total,
            sealed: self.seal.is_some(),
            downloaded: self.whole.is_some(),
            checking: self.touched.is_some(),
        }
    }

    /// The bytes of all that was written and is not on the disk.
    pub(super) fn backlog(&self) -> u64 {
        self.unsynced_bytes + self.syncing
    }
}
