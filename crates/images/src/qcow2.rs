//! What the header of a qcow2 file says. Everything else about that format is left to `qemu-img`.
//!
//! A file from outside may name others: a backing file, or one that holds its data. Whoever opens it would open those
//! too, by names that whoever made it chose.

use std::io::{self, Read};

pub const MAGIC: &[u8] = b"QFI\xfb";
/// Enough of a file to tell all that is asked here.
pub const HEADER_BYTES: usize = 4096;
/// The header of version 2 ends here.
const SHORTEST: usize = 72;
/// Incompatible features that a reader must know: dirty, corrupt, external data, compression, extended entries.
const KNOWN_FEATURES: u64 = 0b1_1111;
const CORRUPT: u64 = 1 << 1;
pub(crate) const EXTERNAL_DATA: u64 = 1 << 2;
/// Of a backing file's name, by the format's own rules.
const LONGEST_NAME: u32 = 1023;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub virtual_size: u64,
    /// As far as its name is within [`HEADER_BYTES`].
    pub backing_file: Option<String>,
    pub external_data: bool,
    pub encrypted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its qcow2 header makes no sense: {0}")]
pub struct BadHeader(&'static str);

impl Header {
    /// Of a file with these first bytes; none, if it is no qcow2.
    pub fn read(head: &[u8]) -> Result<Option<Self>, BadHeader> {
        if !head.starts_with(MAGIC) {
            return Ok(None);
        }
        if head.len() < SHORTEST {
            return Err(BadHeader("it ends too soon"));
        }
        let features = match short(head, 4)? {
            2 => 0,
            3 => long(head, 72)?,
            _ => return Err(BadHeader("its version is neither 2 nor 3")),
        };
        if features & CORRUPT != 0 {
            return Err(BadHeader("it is marked as corrupt"));
        }
        if features & !KNOWN_FEATURES != 0 {
            return Err(BadHeader("it needs features that are not known"));
        }
        let backing_file = match long(head, 8)? {
            0 => None,
            at => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let length = short(head, 16)?.min(LONGEST_NAME) as usize;
                let name = head.get(at..at.saturating_add(length)).unwrap_or_default();
                Some(String::from_utf8_lossy(name).into_owned())
            }
        };
        Ok(Some(Self {
            virtual_size: long(head, 24)?,
            backing_file,
            external_data: features & EXTERNAL_DATA != 0,
            encrypted: short(head, 32)? != 0,
        }))
    }
}

fn long(head: &[u8], at: usize) -> Result<u64, BadHeader> {
    let bytes = head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_be_bytes).ok_or(BadHeader("it ends too soon"))
}

fn short(head: &[u8], at: usize) -> Result<u32, BadHeader> {
    let bytes = head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or(BadHeader("it ends too soon"))
}

/// The first bytes of a file, as many as [`Header::read`] needs.
pub fn head(from: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    from.take(HEADER_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}
