//! The manifest as a file: a header, one line per entry, and a last line with the checksum of all before.
//!
//! ```text
//! holdfast-manifest 1 <entries> <started>
//! <kind> <mode> <uid> <gid> <size> <mtime> <ino> <ctime> <ino of the copy> <ctime of the copy> <hash or -> <path>
//! end <BLAKE3>
//! ```
//!
//! Numbers are hexadecimal, a time is seconds and nanoseconds with a dot; the root's path is `.`, and in
//! paths every byte that is not printable ASCII, and the backslash, is `\xx`. Reading accepts this version
//! only, and takes nothing from a file whose checksum does not match.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::manifest::{Entry, Manifest, Seen};
use super::meta::{Kind, Time};
use crate::durable::{read_limited, write_durably_with};
use crate::error::{Error, Result};

const MAGIC: &str = "holdfast-manifest";
const VERSION: u32 = 1;
/// Room for about ten million entries; a larger file is not one of ours.
const SIZE_LIMIT: u64 = 2 << 30;

/// Passes everything on and hashes it.
struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn kind_letter(kind: Kind) -> u8 {
    match kind {
        Kind::Directory => b'd',
        Kind::File => b'f',
        Kind::Symlink => b'l',
        Kind::Fifo => b'p',
        Kind::Socket => b's',
        Kind::CharDevice => b'c',
        Kind::BlockDevice => b'b',
    }
}

fn kind_of(letter: &str) -> Option<Kind> {
    Some(match letter {
        "d" => Kind::Directory,
        "f" => Kind::File,
        "l" => Kind::Symlink,
        "p" => Kind::Fifo,
        "s" => Kind::Socket,
        "c" => Kind::CharDevice,
        "b" => Kind::BlockDevice,
        _ => return None,
    })
}

/// A line is put together by hand: formatting took as long as the copying of a tenth of the files.
fn push_hex(line: &mut Vec<u8>, number: u64) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        line.push(b"0123456789abcdef"[(number >> (4 * digit) & 0xf) as usize]);
    }
}

fn push_time(line: &mut Vec<u8>, time: Time) {
    if time.sec < 0 {
        line.push(b'-');
    }
    push_hex(line, time.sec.unsigned_abs());
    line.push(b'.');
    push_hex(line, time.nsec.into());
}

fn time_of(text: &str) -> Option<Time> {
    let (sec, nsec) = text.split_once('.')?;
    let nsec = u32::from_str_radix(nsec, 16).ok().filter(|n| *n < 1_000_000_000)?;
    Some(Time { sec: i64::from_str_radix(sec, 16).ok()?, nsec })
}

fn push_path(line: &mut Vec<u8>, path: &[u8]) {
    if path.is_empty() {
        return line.push(b'.');
    }
    for &byte in path {
        match byte {
            b'\\' | 0..=0x20 | 0x7f..=0xff => {
                let hex = b"0123456789abcdef";
                line.extend([b'\\', hex[usize::from(byte >> 4)], hex[usize::from(byte & 0xf)]]);
            }
            _ => line.push(byte),
        }
    }
}

fn path_of(text: &str) -> Option<Box<[u8]>> {
    if text == "." {
        return Some(Box::default());
    }
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    let clean = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
    path.split(|&b| b == b'/').all(clean).then(|| path.into_boxed_slice())
}

fn push_entry(line: &mut Vec<u8>, e: &Entry) {
    line.push(kind_letter(e.kind));
    for number in [e.mode.into(), e.uid.into(), e.gid.into(), e.size] {
        line.push(b' ');
        push_hex(line, number);
    }
    line.push(b' ');
    push_time(line, e.mtime);
    for seen in [e.source, e.copy] {
        line.push(b' ');
        push_hex(line, seen.ino);
        line.push(b' ');
        push_time(line, seen.ctime);
    }
    line.push(b' ');
    match e.hash {
        Some(hash) => line.extend(blake3::Hash::from(hash).to_hex().as_bytes()),
        None => line.push(b'-'),
    }
    line.push(b' ');
    push_path(line, &e.path);
    line.push(b'\n');
}

fn entry_of(line: &str) -> Option<Entry> {
    let mut fields = line.split(' ');
    let kind = kind_of(fields.next()?)?;
    let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
    let mode = u32::try_from(number()?).ok()?;
    let uid = u32::try_from(number()?).ok()?;
    let gid = u32::try_from(number()?).ok()?;
    let size = number()?;
    let mtime = time_of(fields.next()?)?;
    let mut seen = || {
        let ino = u64::from_str_radix(fields.next()?, 16).ok()?;
        Some(Seen { ino, ctime: time_of(fields.next()?)? })
    };
    let (source, copy) = (seen()?, seen()?);
    let hash = match fields.next()? {
        "-" => None,
        hex => Some(*blake3::Hash::from_hex(hex).ok()?.as_bytes()),
    };
    let path = path_of(fields.next()?)?;
    fields.next().is_none().then_some(Entry { path, kind, mode, uid, gid, size, mtime, source, copy, hash })
}

impl Manifest {
    /// Writes the file durably.
    pub fn save(&self, path: &Path) -> Result<()> {
        write_durably_with(path, |file| {
            let hashing = Hashing { inner: file, hasher: blake3::Hasher::new() };
            let mut out = BufWriter::with_capacity(64 * 1024, hashing);
            let mut line = format!("{MAGIC} {VERSION} {:x} ", self.entries().len()).into_bytes();
            push_time(&mut line, self.started);
            line.push(b'\n');
            out.write_all(&line)?;
            for entry in self.entries() {
                line.clear();
                push_entry(&mut line, entry);
                out.write_all(&line)?;
            }
            out.flush()?;
            let hashing = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            writeln!(hashing.inner, "end {}", hashing.hasher.finalize().to_hex())
        })
    }

    /// Reads what [`Manifest::save`] wrote; `None` when there is no such file.
    pub fn load(path: &Path) -> Result<Option<Manifest>> {
        let Some(bytes) = read_limited(path, SIZE_LIMIT)? else { return Ok(None) };
        let bad = |line: usize, why: &str| Error::Damaged {
            path: path.to_owned(),
            line: line as u64,
            why: why.into(),
        };
        let last = bytes.len().checked_sub(1).filter(|&end| bytes[end] == b'\n');
        let last = last.ok_or_else(|| bad(1, "it is empty or cut short"))?;
        let body = bytes[..last].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let lines = bytes[..body].iter().filter(|&&b| b == b'\n').count();
        let sum = format!("end {}", blake3::hash(&bytes[..body]).to_hex());
        if bytes[body..last] != *sum.as_bytes() {
            return Err(bad(lines + 1, "the checksum does not match, or the file is cut short"));
        }
        let text = std::str::from_utf8(&bytes[..body]).map_err(|_| bad(1, "not text"))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let (count, started) = match header[..] {
            [MAGIC, version, count, started] if version == VERSION.to_string() => {
                (usize::from_str_radix(count, 16).ok(), time_of(started))
            }
            [MAGIC, version, ..] => return Err(bad(1, &format!("version {version} is not known"))),
            _ => return Err(bad(1, "not a manifest")),
        };
        let (Some(count), Some(started)) = (count, started) else { return Err(bad(1, "bad header")) };
        // The count is checked below; it must not decide how much memory is taken.
        let mut entries: Vec<Entry> = Vec::new();
        for (index, line) in lines.enumerate() {
            let entry = entry_of(line).ok_or_else(|| bad(index + 2, "not an entry"))?;
            if entries.last().is_some_and(|before| before.path >= entry.path) {
                return Err(bad(index + 2, "not in order"));
            }
            entries.push(entry);
        }
        if entries.len() != count {
            return Err(bad(1, "the number of entries does not match"));
        }
        Ok(Some(Manifest::new(started, entries)))
    }
}
