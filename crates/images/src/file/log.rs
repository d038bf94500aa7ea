//! `backing.chunks`: the list of an image's chunks, and which of them are on the disk; only ever appended to.
//!
//! What a power cut tore at the end is not read; nor is anything behind a damaged record, because all that is lost by it is
//! fetched, or verified, again.
//!
//! A chunk is *written* when its bytes were handed to the kernel, and *synced* when they are on the disk. After a crash,
//! what was written and not synced is verified before it counts. This file must not know what bytes the chunks are.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use disk::{Operation, durable};
use logic::images::ImageId;
use rustix::fs::OFlags;

use super::error::FileError;
use super::record::{CHUNKS_PER_RECORD, Reader, Record, Told, frame};

/// The log of one image, ready to be appended to.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    length: u64,
    records: u64,
    broken: bool,
}

/// Which file a log was when it was read, to tell that somebody else wrote to it since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // A link in its place would let somebody have another file written to.
    options.custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0));
    options
}

impl Log {
    /// What the log says, changing nothing; `None` where there is none, or it is another image's.
    pub(super) fn read(path: &Path, image: &ImageId) -> Result<Option<(Told, Stamp)>, FileError> {
        let file = match options().read(true).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(FileError::io(Operation::Open, path, e)),
        };
        let stamp = stamp_of(&file, path)?;
        let mut reader = Reader::new(BufReader::with_capacity(1 << 16, file));
        let told = reader.told(image).map_err(|e| FileError::io(Operation::Read, path, e))?;
        // What lies behind the last whole record is cut off by whoever writes next.
        Ok(told.map(|told| (told, Stamp { length: reader.length, ..stamp })))
    }

    /// Takes up a log that was read, cutting off what is not whole.
    pub(super) fn resume(path: &Path, image: &ImageId) -> Result<Option<(Log, Stamp)>, FileError> {
        let file = match options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(FileError::io(Operation::Open, path, e)),
        };
        let stamp = stamp_of(&file, path)?;
        let failed = |operation| move |e: io::Error| FileError::io(operation, path, e);
        let source = BufReader::with_capacity(1 << 16, file.try_clone().map_err(failed(Operation::Open))?);
        let mut reader = Reader::new(source);
        if reader.told(image).map_err(failed(Operation::Read))?.is_none() {
            return Ok(None);
        }
        file.set_len(reader.length).map_err(failed(Operation::Truncate))?;
        let stamp = Stamp { length: reader.length, ..stamp };
        let (length, records) = (reader.length, reader.records);
        Ok(Some((Log { path: path.to_owned(), file, length, records, broken: false }, stamp)))
    }

    /// A new log in place of any there was, durable when this returns.
    pub(super) fn create(path: &Path, records: &[Record<'_>]) -> Result<(Log, Stamp), FileError> {
        let mut count = 0;
        let mut length = 0;
        let mut refused = None;
        let written = durable::write_durably_with(path, |file| {
            let mut out = io::BufWriter::with_capacity(1 << 18, file);
            for record in records {
                let mut bytes = Vec::new();
                let framed = match record {
                    Record::Chunks(chunks) => chunks.chunks(CHUNKS_PER_RECORD).try_for_each(|part| {
                        count += 1;
                        frame(path, count - 1, &Record::Chunks(part), &mut bytes)
                    }),
                    record => {
                        count += 1;
                        frame(path, count - 1, record, &mut bytes)
                    }
                };
                if let Err(error) = framed {
                    refused = Some(error);
                    return Err(io::ErrorKind::InvalidData.into());
                }
                length += bytes.len() as u64;
                out.write_all(&bytes)?;
            }
            out.flush()
        });
        if let Some(error) = refused {
            return Err(error);
        }
        written?;
        let file = options().read(true).write(true).open(path);
        let file = file.map_err(|e| FileError::io(Operation::Open, path, e))?;
        let stamp = Stamp { inode: stamp_of(&file, path)?.inode, length };
        Ok((Log { path: path.to_owned(), file, length, records: count, broken: false }, stamp))
    }

    /// Hands records to the kernel. If that fails, none of them is in the log.
    pub(super) fn append(&mut self, records: &[Record<'_>]) -> Result<(), FileError> {
        if self.broken {
            return Err(disk::Error::JournalUnusable { path: self.path.clone() }.into());
        }
        let mut bytes = Vec::new();
        let mut count = self.records;
        for record in records {
            if let Record::Chunks(chunks) = record {
                for part in chunks.chunks(CHUNKS_PER_RECORD) {
                    frame(&self.path, count, &Record::Chunks(part), &mut bytes)?;
                    count += 1;
                }
            } else {
                frame(&self.path, count, record, &mut bytes)?;
                count += 1;
            }
        }
        if let Err(e) = self.file.write_all_at(&bytes, self.length) {
            // A half record would hide all that are appended behind it.
            self.broken = self.file.set_len(self.length).is_err();
            return Err(FileError::io(Operation::Write, &self.path, e));
        }
        self.length += bytes.len() as u64;
        self.records = count;
        Ok(())
    }

    pub(super) fn stamp(&self) -> Stamp {
        let inode = self.file.metadata().map_or(0, |metadata| metadata.ino());
        Stamp { inode, length: self.length }
    }

    /// For syncing without holding on to the log.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

fn stamp_of(file: &File, path: &Path) -> Result<Stamp, FileError> {
    let metadata = file.metadata().map_err(|e| FileError::io(Operation::Inspect, path, e))?;
    Ok(Stamp { inode: metadata.ino(), length: metadata.len() })
}
