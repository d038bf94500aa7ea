//! An append-only file of records, for operations that take several steps.
//!
//! One record is one line: number, checksum, JSON. A record is on disk when `append` returns. What a
//! power cut tore at the end is dropped; damage before the end is an error that names the line, never a
//! guess. It must not know what the records mean. The caller holds the lock of what the journal is about.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::durable::{parent, read_limited, sync_dir};
use crate::error::{Error, Operation, Result};

/// A journal is cleared when its operation is done; one this large is a mistake.
pub const SIZE_LIMIT: u64 = 16 * 1024 * 1024;
const CHECKSUM_DIGITS: usize = 16;

#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    /// Bytes of whole records; what lies behind is not part of the journal.
    length: u64,
    next: u64,
    torn: bool,
    unusable: bool,
    records: PhantomData<fn(T) -> T>,
}

fn checksum(number: u64, json: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(json.as_bytes());
    hasher.finalize().to_hex()[..CHECKSUM_DIGITS].to_owned()
}

/// Number and JSON of a line, if it is whole.
fn parse(line: &[u8]) -> Option<(u64, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let (number, rest) = line.split_once(' ')?;
    let (sum, json) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    (checksum(number, json) == sum).then_some((number, json))
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// The records in the journal, oldest first, changing nothing; none where there is no journal.
    pub fn read(path: &Path) -> Result<Vec<T>> {
        let bytes = read_limited(path, SIZE_LIMIT)?.unwrap_or_default();
        let (lines, _) = read_lines(path, &bytes)?;
        decode(path, &lines)
    }

    /// Opens or creates the journal, and gives the records in it, oldest first. A torn tail is cut off.
    pub fn open(path: &Path) -> Result<(Journal<T>, Vec<T>)> {
        let bytes = read_limited(path, SIZE_LIMIT)?;
        let created = bytes.is_none();
        let bytes = bytes.unwrap_or_default();
        let (lines, length) = read_lines(path, &bytes)?;
        let records: Vec<T> = decode(path, &lines)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| Error::io(Operation::Open, path, e))?;
        let torn = length < bytes.len() as u64;
        if torn {
            file.set_len(length)
                .and_then(|()| file.sync_all())
                .map_err(|e| Error::io(Operation::Truncate, path, e))?;
        }
        if created {
            file.sync_all().map_err(|e| Error::io(Operation::Sync, path, e))?;
            sync_dir(parent(path))?;
        }
        let next = records.len() as u64 + 1;
        let path = path.to_owned();
        Ok((Journal { path, file, length, next, torn, unusable: false, records: PhantomData }, records))
    }

    /// Whether opening cut off a record that a power cut had torn.
    pub fn had_torn_tail(&self) -> bool {
        self.torn
    }

    /// Sets room aside on the disk, so that records can be added when it is full: an operation that failed for want of
    /// room must be able to say so. Where the file system cannot, nothing is set aside.
    pub fn reserve(&mut self, bytes: u64) -> Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, bytes) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            Err(e) => Err(Error::io(Operation::Write, &self.path, e)),
        }
    }

    /// Adds a record; it is on disk when this returns.
    pub fn append(&mut self, record: &T) -> Result<()> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Adds records, at the price of one. A power cut may leave the first of them without the others.
    pub fn append_all(&mut self, records: &[T]) -> Result<()> {
        if self.unusable {
            return Err(Error::JournalUnusable { path: self.path.clone() });
        }
        let mut lines = String::new();
        for (number, record) in (self.next..).zip(records) {
            let json = serde_json::to_string(record)
                .map_err(|source| Error::Encode { path: self.path.clone(), source })?;
            lines.push_str(&format!("{number} {} {json}\n", checksum(number, &json)));
        }
        if self.length + lines.len() as u64 > SIZE_LIMIT {
            return Err(Error::TooLarge { path: self.path.clone(), limit: SIZE_LIMIT });
        }
        let written = self
            .file
            .seek(SeekFrom::Start(self.length))
            .and_then(|_| self.file.write_all(lines.as_bytes()))
            .and_then(|()| self.file.sync_data());
        if let Err(e) = written {
            // They may be there in part or whole. Take them back, so that what the caller was told (not written) stays
            // true; if even that fails, let no later record stand behind them.
            self.unusable = self.file.set_len(self.length).and_then(|()| self.file.sync_data()).is_err();
            return Err(Error::io(Operation::Write, &self.path, e));
        }
        self.length += lines.len() as u64;
        self.next += records.len() as u64;
        Ok(())
    }

    /// Forgets all records, durably: the operation they were about is done.
    pub fn clear(&mut self) -> Result<()> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.sync_all())
            .map_err(|e| Error::io(Operation::Truncate, &self.path, e))?;
        (self.length, self.next, self.unusable) = (0, 1, false);
        Ok(())
    }
}

fn decode<T: DeserializeOwned>(path: &Path, lines: &[&str]) -> Result<Vec<T>> {
    let decode_line = |(index, json): (usize, &&str)| {
        serde_json::from_str(json).map_err(|e| Error::JournalDamaged {
            path: path.to_owned(),
            line: index as u64 + 1,
            why: format!("not a record of this journal: {e}"),
            before: lines[..index].iter().map(|s| (*s).to_owned()).collect(),
        })
    };
    lines.iter().enumerate().map(decode_line).collect()
}

/// Whether a bad line has a whole record at its end: then the newline between the two was damaged, and the
/// line is not a torn tail.
fn swallows_a_record(piece: &[u8]) -> bool {
    let Some(line) = piece.strip_suffix(b"\n") else { return false };
    (1..line.len()).any(|at| {
        let rest = &line[at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        // Cheap signs first; the checksum is computed for hardly anything but a record.
        digits > 0
            && !line[at - 1].is_ascii_digit()
            && rest.get(digits) == Some(&b' ')
            && rest.get(digits + 1 + CHECKSUM_DIGITS) == Some(&b' ')
            && parse(rest).is_some()
    })
}

/// The JSON of all whole records, and how many bytes they take.
fn read_lines<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Vec<&'a str>, u64)> {
    let damaged = |line: u64, why: &str, before: &[&str]| Error::JournalDamaged {
        path: path.to_owned(),
        line,
        why: why.to_owned(),
        before: before.iter().map(|s| (*s).to_owned()).collect(),
    };
    let mut lines = Vec::new();
    let mut length = 0;
    let mut bad = None;
    let mut line = 0;
    for piece in bytes.split_inclusive(|&b| b == b'\n') {
        line += 1;
        // A record whose newline is missing was never acknowledged, even if all else is there.
        let record = piece.strip_suffix(b"\n").and_then(parse);
        let expected = lines.len() as u64 + 1;
        match (record, bad) {
            (Some((number, json)), None) if number == expected => {
                lines.push(json);
                length += piece.len() as u64;
            }
            // Only the last record can be torn: a whole record behind a bad line means that an
            // acknowledged one was damaged.
            (Some(_), earlier) => {
                return Err(match earlier {
                    Some(bad) => damaged(bad, "its checksum does not match", &lines),
                    None => damaged(line, &format!("record {expected} is missing"), &lines),
                });
            }
            (None, None) => bad = Some(line),
            (None, Some(_)) => {}
        }
        if bad.is_some() && swallows_a_record(piece) {
            return Err(damaged(bad.unwrap_or(line), "its checksum does not match", &lines));
        }
    }
    Ok((lines, length))
}
