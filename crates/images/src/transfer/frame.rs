//! What is said on a link: frames of a length, a kind, and bytes, all little-endian. Nothing is read before its length is known
//! to be within its limit.

use logic::images::swarm::AskId;
use logic::images::{Chunk, ChunkList, Hash, Held, Piece, Seal};

use crate::file::Validators;

pub const VERSION: u8 = 1;
/// Length and kind.
pub const HEADER: usize = 5;
/// Of any frame but data: the list of a piece's neighbourhood, or the pieces of the largest image.
pub const LARGEST: usize = 256 << 10;
/// Of the bytes in one frame of data: at least one chunk of any length.
pub const LARGEST_DATA: usize = 1 << 20;
/// Chunks in one frame of a list.
pub const CHUNKS: usize = 4096;
/// Pieces in one announcement.
pub const PIECES: usize = 4096;
/// Candidates of one request.
pub const CANDIDATES: usize = 32;
const CHUNK_BYTES: usize = 36;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    #[error("a frame of {length} bytes, kind {kind}: at most {LARGEST} are allowed")]
    TooLong { kind: u8, length: usize },
    #[error("frames of kind {0} are not known here")]
    Kind(u8),
    #[error("a frame of kind {0} is not what it should be")]
    Content(u8),
    #[error("the peer speaks version {0}, not {VERSION}")]
    Version(u8),
    #[error("a frame that makes no sense now: {0}")]
    Sense(&'static str),
}

/// One of the pieces that are asked for, and which of its chunks are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub piece: Piece,
    pub missing: u16,
}

/// What a receiver knows of the list already, and how to tell that it is the same list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    pub generation: u64,
    pub listed: u32,
    /// Bytes that those chunks cover.
    pub size: u64,
    /// The hash of the last of them.
    pub last: [u8; 32],
}

impl Known {
    pub fn of(generation: u64, list: &ChunkList) -> Self {
        let last = list.chunks().last().map_or([0; 32], |chunk| *chunk.hash.bytes());
        Self { generation, listed: u32::try_from(list.len()).unwrap_or(u32::MAX), size: list.size(), last }
    }

    /// Chunks of another's list that need not be told. None, if it is another list: then the receiver shall see that.
    pub fn in_common(&self, generation: u64, list: &ChunkList) -> usize {
        let listed = self.listed as usize;
        if listed > list.len() {
            // Theirs is longer than ours: there is nothing to tell them yet.
            return if generation == self.generation { list.len() } else { 0 };
        }
        let last = listed.checked_sub(1).and_then(|last| list.get(last));
        let same =
            last.is_none_or(|chunk| *chunk.hash.bytes() == self.last) && list.start(listed) == self.size;
        if generation == self.generation && same { listed } else { 0 }
    }
}

/// What a receiver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Hello {
        ticket: [u8; 32],
        known: Known,
    },
    Want {
        wants: bool,
        served_by: u8,
    },
    One {
        turn: u32,
        ask: AskId,
        of: Vec<Candidate>,
    },
    Cancel {
        piece: Piece,
    },
    /// This chunk came and was bad.
    Bad {
        chunk: u32,
    },
}

/// What a sender says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tell {
    Hello {
        generation: u64,
        listed: u32,
    },
    About {
        total: Option<u64>,
        validators: Validators,
    },
    List {
        at: u32,
        chunks: Vec<Chunk>,
    },
    Held {
        pieces: Held,
    },
    Has {
        pieces: Vec<Piece>,
    },
    Lost {
        pieces: Vec<Piece>,
    },
    Seal {
        seal: Seal,
    },
    Turn {
        turn: u32,
        served: bool,
    },
    Sending {
        ask: AskId,
        piece: Piece,
    },
    /// Chunks, whose bytes follow.
    Data {
        first: u32,
        length: usize,
    },
    Sent {
        piece: Piece,
    },
    /// Still there.
    Ping,
}

const DATA: u8 = 32;

impl Ask {
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut frame = Frame::begin(out);
        let kind = match self {
            Self::Hello { ticket, known } => {
                frame.u8(VERSION);
                frame.bytes(ticket);
                frame.u64(known.generation);
                frame.u32(known.listed);
                frame.u64(known.size);
                frame.bytes(&known.last);
                1
            }
            Self::Want { wants, served_by } => {
                frame.u8(u8::from(*wants));
                frame.u8(*served_by);
                2
            }
            Self::One { turn, ask, of } => {
                frame.u32(*turn);
                frame.u32(ask.0);
                for candidate in of {
                    frame.u32(candidate.piece.0);
                    frame.bytes(&candidate.missing.to_le_bytes());
                }
                3
            }
            Self::Cancel { piece } => {
                frame.u32(piece.0);
                4
            }
            Self::Bad { chunk } => {
                frame.u32(*chunk);
                5
            }
        };
        frame.end(kind);
    }

    pub fn read(kind: u8, bytes: &[u8]) -> Result<Self, BadFrame> {
        let mut parts = Parts { kind, bytes };
        let ask = match kind {
            1 => {
                let version = parts.u8()?;
                if version != VERSION {
                    return Err(BadFrame::Version(version));
                }
                let ticket = parts.array()?;
                let (generation, listed) = (parts.u64()?, parts.u32()?);
                let (size, last) = (parts.u64()?, parts.array()?);
                Self::Hello { ticket, known: Known { generation, listed, size, last } }
            }
            2 => Self::Want { wants: parts.u8()? != 0, served_by: parts.u8()? },
            3 => {
                let (turn, ask) = (parts.u32()?, AskId(parts.u32()?));
                let mut of = Vec::new();
                while !parts.bytes.is_empty() && of.len() < CANDIDATES {
                    let piece = Piece(parts.u32()?);
                    of.push(Candidate { piece, missing: u16::from_le_bytes(parts.array()?) });
                }
                Self::One { turn, ask, of }
            }
            4 => Self::Cancel { piece: Piece(parts.u32()?) },
            5 => Self::Bad { chunk: parts.u32()? },
            other => return Err(BadFrame::Kind(other)),
        };
        parts.end(ask)
    }
}

impl Tell {
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut frame = Frame::begin(out);
        let kind = match self {
            Self::Hello { generation, listed } => {
                frame.u8(VERSION);
                frame.u64(*generation);
                frame.u32(*listed);
                16
            }
            Self::About { total, validators } => {
                frame.json(&(total, validators));
                17
            }
            Self::List { at, chunks } => {
                frame.u32(*at);
                for chunk in chunks {
                    frame.u32(chunk.length);
                    frame.bytes(chunk.hash.bytes());
                }
                18
            }
            Self::Held { pieces } => {
                pieces.words().iter().for_each(|word| frame.u64(*word));
                19
            }
            Self::Has { pieces } => {
                pieces.iter().for_each(|piece| frame.u32(piece.0));
                20
            }
            Self::Lost { pieces } => {
                pieces.iter().for_each(|piece| frame.u32(piece.0));
                21
            }
            Self::Seal { seal } => {
                frame.json(seal);
                22
            }
            Self::Turn { turn, served } => {
                frame.u32(*turn);
                frame.u8(u8::from(*served));
                23
            }
            Self::Sending { ask, piece } => {
                frame.u32(ask.0);
                frame.u32(piece.0);
                24
            }
            Self::Sent { piece } => {
                frame.u32(piece.0);
                25
            }
            Self::Ping => 26,
            // Only its head: the bytes come from elsewhere.
            Self::Data { first, length } => {
                frame.u32(*first);
                return frame.end_with(DATA, *length);
            }
        };
        frame.end(kind);
    }

    pub fn read(kind: u8, bytes: &[u8]) -> Result<Self, BadFrame> {
        let mut parts = Parts { kind, bytes };
        let tell = match kind {
            16 => {
                let version = parts.u8()?;
                if version != VERSION {
                    return Err(BadFrame::Version(version));
                }
                Self::Hello { generation: parts.u64()?, listed: parts.u32()? }
            }
            17 => {
                let (total, validators): (Option<u64>, Validators) = parts.json()?;
                Self::About { total, validators: validators.limited() }
            }
            18 => Self::List { at: parts.u32()?, chunks: parts.chunks()? },
            19 => Self::Held { pieces: parts.held()? },
            20 => Self::Has { pieces: parts.pieces()? },
            21 => Self::Lost { pieces: parts.pieces()? },
            22 => Self::Seal { seal: parts.json()? },
            23 => Self::Turn { turn: parts.u32()?, served: parts.u8()? != 0 },
            24 => Self::Sending { ask: AskId(parts.u32()?), piece: Piece(parts.u32()?) },
            25 => Self::Sent { piece: Piece(parts.u32()?) },
            26 => Self::Ping,
            other => return Err(BadFrame::Kind(other)),
        };
        parts.end(tell)
    }
}

/// How much of a frame is read before it is looked at: all of it, or of data its head.
pub fn to_read(kind: u8, length: usize) -> Result<usize, BadFrame> {
    let limit = if kind == DATA { LARGEST_DATA + 4 } else { LARGEST };
    if length > limit || (kind == DATA && length <= 4) {
        return Err(BadFrame::TooLong { kind, length });
    }
    Ok(if kind == DATA { 4 } else { length })
}

/// The head of data.
pub fn data_head(kind: u8, length: usize, head: &[u8]) -> Option<Tell> {
    let first = u32::from_le_bytes(head.try_into().ok()?);
    (kind == DATA).then_some(Tell::Data { first, length: length - 4 })
}

struct Frame<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Frame<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        Self { out, start }
    }

    fn end(self, kind: u8) {
        self.end_with(kind, 0);
    }

    fn end_with(self, kind: u8, follows: usize) {
        let length = self.out.len() - self.start - HEADER + follows;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.out[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
        self.out[self.start + 4] = kind;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    fn json<T: serde::Serialize>(&mut self, value: &T) {
        // Of these types it can't fail; if it did, the other side would refuse what it gets.
        if let Ok(json) = serde_json::to_vec(value) {
            self.bytes(&json);
        }
    }
}

struct Parts<'a> {
    kind: u8,
    bytes: &'a [u8],
}

impl Parts<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(BadFrame::Content(self.kind))?;
        self.bytes = rest;
        Ok(*array)
    }

    fn u8(&mut self) -> Result<u8, BadFrame> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Result<u32, BadFrame> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadFrame> {
        self.array().map(u64::from_le_bytes)
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, BadFrame> {
        let bytes = std::mem::take(&mut self.bytes);
        serde_json::from_slice(bytes).map_err(|_| BadFrame::Content(self.kind))
    }

    fn chunks(&mut self) -> Result<Vec<Chunk>, BadFrame> {
        let count = self.bytes.len() / CHUNK_BYTES;
        (0..count).map(|_| Ok(Chunk { length: self.u32()?, hash: Hash::new(self.array()?) })).collect()
    }

    fn held(&mut self) -> Result<Held, BadFrame> {
        let words: Result<Vec<u64>, BadFrame> = (0..self.bytes.len() / 8).map(|_| self.u64()).collect();
        let held = Held::from_words(words?);
        // No image has more pieces than that.
        let most = ChunkList::MOST_CHUNKS / ChunkList::CHUNKS_PER_PIECE;
        if held.words().len() * 64 > most { Err(BadFrame::Content(self.kind)) } else { Ok(held) }
    }

    fn pieces(&mut self) -> Result<Vec<Piece>, BadFrame> {
        let most = u32::try_from(ChunkList::MOST_CHUNKS / ChunkList::CHUNKS_PER_PIECE).unwrap_or(u32::MAX);
        let pieces: Result<Vec<Piece>, BadFrame> =
            (0..self.bytes.len() / 4).map(|_| self.u32().map(Piece)).collect();
        pieces.and_then(|pieces| {
            if pieces.iter().any(|piece| piece.0 >= most) {
                Err(BadFrame::Content(self.kind))
            } else {
                Ok(pieces)
            }
        })
    }

    fn end<T>(self, value: T) -> Result<T, BadFrame> {
        if self.bytes.is_empty() { Ok(value) } else { Err(BadFrame::Content(self.kind)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let seal = Seal { size: 3, root: Hash::of(b"x"), sha256: "sha256:00".into(), sha512: None };
        let tells = [
            Tell::Hello { generation: 7, listed: 9 },
            Tell::About { total: Some(5), validators: Validators::default() },
            Tell::List { at: 2, chunks: vec![Chunk { hash: Hash::of(b"y"), length: 77 }] },
            Tell::Held { pieces: Held::all(70) },
            Tell::Has { pieces: vec![Piece(1), Piece(2)] },
            Tell::Lost { pieces: vec![Piece(3)] },
            Tell::Seal { seal },
            Tell::Turn { turn: 3, served: true },
            Tell::Sending { ask: AskId(1), piece: Piece(4) },
            Tell::Sent { piece: Piece(4) },
            Tell::Ping,
        ];
        for tell in tells {
            let mut out = Vec::new();
            tell.write(&mut out);
            assert_eq!(Tell::read(out[4], &out[HEADER..]), Ok(tell));
        }
        let asks = [
            Ask::Hello { ticket: [7; 32], known: Known { generation: 1, listed: 2, size: 3, last: [4; 32] } },
            Ask::Want { wants: true, served_by: 2 },
            Ask::One { turn: 1, ask: AskId(2), of: vec![Candidate { piece: Piece(3), missing: 0xff }] },
            Ask::Cancel { piece: Piece(1) },
            Ask::Bad { chunk: 3 },
        ];
        for ask in asks {
            let mut out = Vec::new();
            ask.write(&mut out);
            assert_eq!(Ask::read(out[4], &out[HEADER..]), Ok(ask));
        }
    }

    #[test]
    fn nothing_longer_than_allowed_is_read_at_all() {
        assert!(to_read(18, LARGEST + 1).is_err());
        assert!(to_read(DATA, LARGEST_DATA + 5).is_err());
        assert!(to_read(DATA, 4).is_err());
        assert_eq!(to_read(DATA, 100), Ok(4));
    }

    #[test]
    fn any_bytes_are_refused_without_harm() {
        for kind in 0..=255 {
            for length in 0..64_u8 {
                let bytes = vec![0xff; usize::from(length)];
                let _ = (Tell::read(kind, &bytes), Ask::read(kind, &bytes));
            }
        }
        assert!(Tell::read(20, &[0xff; 4]).is_err());
        assert_eq!(Ask::read(1, &[9; 85]), Err(BadFrame::Version(9)));
    }

    #[test]
    fn a_list_is_told_from_where_it_is_known_and_another_one_from_its_beginning() {
        let list = |seed: u8, length: u8| {
            let mut list = ChunkList::default();
            for at in 0..length {
                list.push(Chunk { hash: Hash::of(&[seed, at]), length: 100 }).expect("a chunk");
            }
            list
        };
        let known = Known::of(3, &list(1, 5));
        assert_eq!(known.in_common(3, &list(1, 9)), 5);
        assert_eq!(known.in_common(4, &list(1, 9)), 0);
        assert_eq!(known.in_common(3, &list(2, 9)), 0);
        assert_eq!(known.in_common(3, &list(1, 2)), 2);
        assert_eq!(Known::default().in_common(0, &list(1, 9)), 0);
    }
}
