//! What the log of an image says: its records, as bytes and back.
//!
//! A record is a length, a kind, its bytes, and a checksum over its number, its kind and its bytes: one that is torn, or in
//! another place than it was written, ends what is believed of a log.

use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use logic::images::{Chunk, ChunkList, Hash, Held, ImageId, Seal};
use serde::{Deserialize, Serialize};

use super::error::FileError;

const MAGIC: &str = "holdfast chunks 1";
const CHECKSUM: usize = 8;
const FRAME: usize = 5;
/// Bytes of one record.
const RECORD_LIMIT: usize = 1 << 20;
const CHUNK_BYTES: usize = 36;
pub(super) const CHUNKS_PER_RECORD: usize = 4096;
/// Of text that an origin said about itself.
const VALIDATOR_LIMIT: usize = 512;

/// What an origin said to tell one version of the image from another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validators {
    /// A strong one; weak ones say nothing about bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Validators {
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// What is longer than anybody writes is left out.
    pub fn limited(self) -> Self {
        let short = |text: Option<String>| text.filter(|text| text.len() <= VALIDATOR_LIMIT);
        Self { etag: short(self.etag), last_modified: short(self.last_modified) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    magic: String,
    pub image: ImageId,
    pub generation: u64,
}

impl Header {
    pub(super) fn new(image: &ImageId, generation: u64) -> Self {
        Self { magic: MAGIC.to_owned(), image: image.clone(), generation }
    }
}

/// What the origin said about the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    #[serde(default)]
    pub validators: Validators,
}

#[derive(Debug)]
pub(super) enum Record<'a> {
    Header(&'a Header),
    About(&'a About),
    /// More of the list.
    Chunks(&'a [Chunk]),
    Written(Range<usize>),
    Synced(&'a [Range<usize>]),
    /// Turned out bad.
    Dropped(usize),
    Seal(&'a Seal),
}

/// What a log says, read from its beginning.
#[derive(Debug)]
pub(super) struct Told {
    pub generation: u64,
    pub about: About,
    pub list: ChunkList,
    pub held: Held,
    /// Of those held, what may not be on the disk.
    pub unsynced: Held,
    pub seal: Option<Seal>,
}

fn checksum(number: u64, kind: u8, bytes: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(&[kind]);
    hasher.update(bytes);
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM]);
    sum
}

fn json<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, FileError> {
    let encoded = serde_json::to_vec(value);
    encoded.map_err(|source| disk::Error::Encode { path: path.to_owned(), source }.into())
}

fn put_range(bytes: &mut Vec<u8>, range: &Range<usize>) {
    for end in [range.start, range.end] {
        bytes.extend_from_slice(&u32::try_from(end).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Appends the record with this number.
pub(super) fn frame(
    path: &Path,
    number: u64,
    record: &Record<'_>,
    out: &mut Vec<u8>,
) -> Result<(), FileError> {
    let mut bytes = Vec::new();
    let kind = match record {
        Record::Header(header) => {
            bytes = json(path, header)?;
            0
        }
        Record::About(about) => {
            bytes = json(path, about)?;
            1
        }
        Record::Chunks(chunks) => {
            for chunk in *chunks {
                bytes.extend_from_slice(&chunk.length.to_le_bytes());
                bytes.extend_from_slice(chunk.hash.bytes());
            }
            2
        }
        Record::Written(range) => {
            put_range(&mut bytes, range);
            3
        }
        Record::Synced(ranges) => {
            ranges.iter().for_each(|range| put_range(&mut bytes, range));
            4
        }
        Record::Dropped(chunk) => {
            put_range(&mut bytes, &(*chunk..*chunk + 1));
            5
        }
        Record::Seal(seal) => {
            bytes = json(path, seal)?;
            6
        }
    };
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&bytes);
    out.extend_from_slice(&checksum(number, kind, &bytes));
    Ok(())
}

pub(super) struct Reader<R> {
    source: R,
    pub records: u64,
    /// Bytes of whole records.
    pub length: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, records: 0, length: 0 }
    }

    /// `None` if it does not begin as the log of this image.
    pub(super) fn told(&mut self, image: &ImageId) -> io::Result<Option<Told>> {
        let Some((0, bytes)) = self.next()? else { return Ok(None) };
        let Ok(header) = serde_json::from_slice::<Header>(&bytes) else { return Ok(None) };
        if header != Header::new(image, header.generation) {
            return Ok(None);
        }
        let mut told = Told {
            generation: header.generation,
            about: About::default(),
            list: ChunkList::default(),
            held: Held::default(),
            unsynced: Held::default(),
            seal: None,
        };
        let (mut records, mut length) = (self.records, self.length);
        while let Some((kind, bytes)) = self.next()? {
            if told.take(kind, &bytes).is_none() {
                // Whole, and nonsense: as good as damaged.
                (self.records, self.length) = (records, length);
                break;
            }
            (records, length) = (self.records, self.length);
        }
        Ok(Some(told))
    }

    /// The next whole record.
    fn next(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let mut head = [0; FRAME];
        if !fill(&mut self.source, &mut head)? {
            return Ok(None);
        }
        let [a, b, c, d, kind] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > RECORD_LIMIT {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        let mut sum = [0; CHECKSUM];
        if !fill(&mut self.source, &mut bytes)? || !fill(&mut self.source, &mut sum)? {
            return Ok(None);
        }
        if sum != checksum(self.records, kind, &bytes) {
            return Ok(None);
        }
        self.records += 1;
        self.length += (FRAME + length + CHECKSUM) as u64;
        Ok(Some((kind, bytes)))
    }
}

/// Whether there was enough.
fn fill(source: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match source.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

impl Told {
    fn take(&mut self, kind: u8, bytes: &[u8]) -> Option<()> {
        match kind {
            1 => self.about = serde_json::from_slice(bytes).ok()?,
            2 => {
                for chunk in bytes.chunks(CHUNK_BYTES) {
                    let (length, hash) = (chunk.get(..4)?, chunk.get(4..)?);
                    let length = u32::from_le_bytes(length.try_into().ok()?);
                    let hash = Hash::new(hash.try_into().ok()?);
                    self.list.push(Chunk { hash, length }).ok()?;
                }
            }
            3 => {
                for index in self.ranges(bytes)?.into_iter().flatten() {
                    self.held.insert(index);
                    self.unsynced.insert(index);
                }
            }
            4 => {
                for index in self.ranges(bytes)?.into_iter().flatten() {
                    self.held.insert(index);
                    self.unsynced.remove(index);
                }
            }
            5 => {
                for index in self.ranges(bytes)?.into_iter().flatten() {
                    self.held.remove(index);
                    self.unsynced.remove(index);
                }
            }
            6 => self.seal = Some(serde_json::from_slice(bytes).ok()?),
            _ => return None,
        }
        Some(())
    }

    fn ranges(&self, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
        let end = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize);
        bytes
            .chunks(8)
            .map(|range| Some(end(range.get(..4)?)?..end(range.get(4..)?)?))
            .map(|range| range.filter(|range| range.start <= range.end && range.end <= self.list.len()))
            .collect()
    }
}
