//! An image as its chunks: where each begins, what it hashes to, and the one hash over all of them.
//!
//! Chunks are cut by content, so that an image's next version shares most of them; they are what is verified, kept and
//! not sent twice. A [`Piece`] is a run of neighbouring chunks: what is asked for and announced at a time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a BLAKE3 hash: expected 64 hexadecimal digits")]
pub struct BadHash(String);

impl Hash {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let bad = || BadHash(text.chars().take(80).collect());
        if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Hash {
    type Error = BadHash;
    fn try_from(text: String) -> Result<Self, BadHash> {
        text.parse()
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> String {
        hash.to_string()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chunk {
    pub hash: Hash,
    pub length: u32,
}

/// What closes an image: nothing is ready before its chunks add up to this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Seal {
    pub size: u64,
    pub root: Hash,
    /// `sha256:…` of the whole.
    pub sha256: String,
    /// `sha512:…` of the whole, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha512: Option<String>,
}

/// A run of neighbouring chunks, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Piece(pub u32);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    #[error("a chunk of {0} bytes: expected 1 to {max}", max = ChunkList::LONGEST_CHUNK)]
    ChunkLength(u32),
    #[error("more than {max} chunks", max = ChunkList::MOST_CHUNKS)]
    TooMany,
}

/// The chunks of an image from its beginning, as far as they are known. It only ever grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkList {
    chunks: Vec<Chunk>,
    /// Where each chunk ends.
    ends: Vec<u64>,
}

impl ChunkList {
    /// Small enough that a changed file costs little more than itself (of a rebuilt system with 3 % of its files changed, a
    /// twelfth is new; with twice these lengths, a ninth), large enough that the list of a terabyte can be held in
    /// memory. What is shorter than the shortest is never looked at for an end, which makes cutting fast.
    pub const SHORTEST_CHUNK: u32 = 32 << 10;
    pub const AVERAGE_CHUNK: u32 = 48 << 10;
    pub const LONGEST_CHUNK: u32 = 128 << 10;
    /// Most of a megabyte: long enough to keep a link busy, short enough to be passed on soon.
    pub const CHUNKS_PER_PIECE: usize = 16;
    /// 384 GiB of average chunks.
    pub const MOST_CHUNKS: usize = 1 << 23;

    pub fn push(&mut self, chunk: Chunk) -> Result<(), ListError> {
        if chunk.length == 0 || chunk.length > Self::LONGEST_CHUNK {
            return Err(ListError::ChunkLength(chunk.length));
        }
        if self.chunks.len() == Self::MOST_CHUNKS {
            return Err(ListError::TooMany);
        }
        self.ends.push(self.size() + u64::from(chunk.length));
        self.chunks.push(chunk);
        Ok(())
    }

    /// Takes back what was pushed last, so that `length` chunks remain.
    pub fn truncate(&mut self, length: usize) {
        self.chunks.truncate(length);
        self.ends.truncate(length);
    }

    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Bytes that the known chunks cover.
    pub fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    pub fn get(&self, index: usize) -> Option<Chunk> {
        self.chunks.get(index).copied()
    }

    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// Where a chunk begins.
    pub fn start(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(self.size()),
            None => 0,
        }
    }

    /// The bytes of the chunks in a range.
    pub fn span(&self, chunks: std::ops::Range<usize>) -> std::ops::Range<u64> {
        self.start(chunks.start)..self.start(chunks.end)
    }

    /// Some of the chunks, as a list of their own.
    pub fn part(&self, chunks: std::ops::Range<usize>) -> Self {
        let begin = self.start(chunks.start);
        let ends = self.ends.get(chunks.clone()).unwrap_or_default().iter().map(|end| end - begin).collect();
        Self { chunks: self.chunks.get(chunks).unwrap_or_default().to_vec(), ends }
    }

    /// Pieces that are complete: all of them once the list is, otherwise not the last one, which still grows.
    pub fn pieces(&self, complete: bool) -> u32 {
        let pieces = if complete {
            self.len().div_ceil(Self::CHUNKS_PER_PIECE)
        } else {
            self.len() / Self::CHUNKS_PER_PIECE
        };
        u32::try_from(pieces).unwrap_or(u32::MAX)
    }

    /// The chunks of a piece, as far as they are known.
    pub fn chunks_of(&self, piece: Piece) -> std::ops::Range<usize> {
        let start = (piece.0 as usize).saturating_mul(Self::CHUNKS_PER_PIECE).min(self.len());
        start..(start + Self::CHUNKS_PER_PIECE).min(self.len())
    }

    pub fn piece_of(index: usize) -> Piece {
        Piece(u32::try_from(index / Self::CHUNKS_PER_PIECE).unwrap_or(u32::MAX))
    }

    /// The hash over lengths and hashes of all chunks, in order.
    pub fn root(&self) -> Hash {
        let mut hasher = blake3::Hasher::new_derive_key("holdfast images 2026 root of a chunk list");
        for chunk in &self.chunks {
            hasher.update(&chunk.length.to_le_bytes());
            hasher.update(chunk.hash.bytes());
        }
        Hash(*hasher.finalize().as_bytes())
    }

    /// Whether these are all the chunks of the sealed image.
    pub fn adds_up_to(&self, seal: &Seal) -> bool {
        self.size() == seal.size && self.root() == seal.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(chunks: usize) -> ChunkList {
        let mut list = ChunkList::default();
        for at in 0..chunks {
            let content = at.to_le_bytes();
            list.push(Chunk { hash: Hash::of(&content), length: 1000 + u32::try_from(at).unwrap_or(0) })
                .expect("a chunk");
        }
        list
    }

    #[test]
    fn the_last_piece_of_a_growing_list_is_not_complete() {
        let list = list(ChunkList::CHUNKS_PER_PIECE + 3);
        assert_eq!(list.pieces(false), 1);
        assert_eq!(list.pieces(true), 2);
        assert_eq!(list.chunks_of(Piece(1)), 16..19);
        assert_eq!(list.chunks_of(Piece(9)), 19..19);
        assert_eq!(list.span(0..2), 0..2001);
        assert_eq!(list.span(0..list.len()), 0..list.size());
    }

    #[test]
    fn the_root_changes_with_every_chunk_its_length_and_the_order() {
        let whole = list(5);
        let mut shorter = ChunkList::default();
        for chunk in &whole.chunks()[..4] {
            shorter.push(*chunk).expect("a chunk");
        }
        assert_ne!(whole.root(), shorter.root());
        let mut swapped = ChunkList::default();
        for at in [1, 0, 2, 3, 4] {
            swapped.push(whole.chunks()[at]).expect("a chunk");
        }
        assert_ne!(whole.root(), swapped.root());
        assert_eq!(whole.size(), swapped.size());
    }

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = Hash::of(b"x");
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert!("XY".parse::<Hash>().is_err());
        assert!("é".repeat(32).parse::<Hash>().is_err());
    }

    #[test]
    fn chunks_without_length_or_beyond_the_longest_are_refused() {
        let mut list = ChunkList::default();
        for length in [0, ChunkList::LONGEST_CHUNK + 1] {
            assert_eq!(list.push(Chunk { hash: Hash::of(b""), length }), Err(ListError::ChunkLength(length)));
        }
    }
}
