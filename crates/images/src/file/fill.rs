//! Filling an image: its list grows, its chunks are put in, verified, and read by others.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError};

use disk::Operation;
use logic::images::{Chunk, ChunkList, Hash};
use rustix::io::{ReadWriteFlags, preadv2};

use super::error::FileError;
use super::image_file::ImageFile;
use super::record::{About, Record, Validators};
use super::room::real_size;
use super::state::{Body, State};
use super::sync;

/// Where nobody knows how long an image is, room is set aside this much at a time.
const ALLOCATE_AHEAD: u64 = 64 << 20;
/// Chunks that may be read at once.
const READ_LIMIT: u64 = 64 << 20;
const WRITE_AT_ONCE: usize = 256 << 10;

/// What became of chunks that were put in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Put {
    /// Are here now, or were before.
    pub good: usize,
    /// Are not what the list says.
    pub bad: Vec<usize>,
}

impl ImageFile {
    /// More of the list, from one who has it: `chunks` from number `at` on. What is known already must be the same.
    pub fn extend(
        &self,
        generation: u64,
        at: usize,
        chunks: &[Chunk],
        total: Option<u64>,
        validators: &Validators,
    ) -> Result<(), FileError> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.lock();
        self.load(&mut state)?;
        self.settle_generation(&mut state, generation)?;
        let known = body(&mut state).list.len();
        if at > known {
            return Err(FileError::Gap { at, known });
        }
        let overlap = (known - at).min(chunks.len());
        let same = |(index, chunk): (usize, &Chunk)| {
            if body_ref(&state).is_some_and(|body| body.list.get(at + index) == Some(*chunk)) {
                Ok(())
            } else {
                Err(FileError::Contradiction { at: at + index })
            }
        };
        chunks[..overlap].iter().enumerate().try_for_each(same)?;
        let new = &chunks[overlap..];
        self.about(&mut state, total, validators)?;
        if new.is_empty() {
            self.shared.publish(&state);
            return Ok(());
        }
        if state.whole.is_some() {
            return Err(FileError::Whole);
        }
        self.grow(&mut state, new)?;
        self.shared.publish(&state);
        Ok(())
    }

    /// How long the whole is said to be, and how its origin tells versions apart. Room for all of it is set aside.
    pub fn set_about(&self, total: Option<u64>, validators: &Validators) -> Result<(), FileError> {
        let mut state = self.shared.lock();
        self.load(&mut state)?;
        self.about(&mut state, total, validators)?;
        self.shared.publish(&state);
        Ok(())
    }

    /// Whole chunks from number `first` on: those that are what the list says are written, and are here from then on.
    pub fn put(&self, first: usize, bytes: &[u8]) -> Result<Put, FileError> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let (mut put, mut good) = (Put::default(), Vec::new());
        let (planned, offset, data) = {
            let mut state = self.shared.lock();
            self.load(&mut state)?;
            let planned = plan(&body(&mut state).list, first, bytes.len())?;
            let offset = body(&mut state).list.start(first);
            if state.whole.is_some() {
                // Whole is whole: nothing is written, nothing can be bad.
                return Ok(Put { good: planned.len(), bad: vec![] });
            }
            let data = Arc::clone(&self.writer(&mut state)?.data);
            (planned, offset, data)
        };
        // Hashing and writing without the lock: others look and write meanwhile.
        let mut at = 0;
        for (index, chunk) in (first..).zip(&planned) {
            let end = at + chunk.length as usize;
            if Hash::of(&bytes[at..end]) == chunk.hash {
                extend_runs(&mut good, index, at..end);
                put.good += 1;
            } else {
                put.bad.push(index);
            }
            at = end;
        }
        for (_, range) in &good {
            write(&data, &bytes[range.clone()], offset + range.start as u64)
                .map_err(|e| FileError::io(Operation::Write, &self.dir, e))?;
        }
        let mut state = self.shared.lock();
        for (chunks, range) in good {
            self.hold(&mut state, chunks, range.len() as u64)?;
        }
        self.shared.publish(&state);
        drop(sync::wait_for_room(&self.shared, state));
        Ok(put)
    }

    /// New chunks at the end of the list with their bytes, from one who cut and hashed them here: they are not verified again.
    pub fn append(&self, at: usize, chunks: &[Chunk], bytes: &[u8]) -> Result<(), FileError> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let (offset, data) = {
            let mut state = self.shared.lock();
            self.load(&mut state)?;
            let list = &body(&mut state).list;
            let (known, offset) = (list.len(), list.size());
            if known != at {
                return Err(FileError::Gap { at, known });
            }
            let end = offset + bytes.len() as u64;
            self.allocate(&mut state, end)?;
            (offset, Arc::clone(&self.writer(&mut state)?.data))
        };
        write(&data, bytes, offset).map_err(|e| FileError::io(Operation::Write, &self.dir, e))?;
        let mut state = self.shared.lock();
        let known = body(&mut state).list.len();
        if known != at {
            return Err(FileError::Gap { at, known });
        }
        self.grow(&mut state, chunks)?;
        self.hold(&mut state, at..at + chunks.len(), bytes.len() as u64)?;
        self.shared.publish(&state);
        drop(sync::wait_for_room(&self.shared, state));
        Ok(())
    }

    /// The bytes of chunks that are here, in place of whatever `into` has from `at` on: a buffer that is used again is not
    /// cleared first. They were verified once; whoever gets them verifies them again.
    pub fn read(&self, chunks: Range<usize>, into: &mut Vec<u8>, at: usize) -> Result<(), FileError> {
        self.read_with(chunks, into, at, |data, part, offset| data.read_exact_at(part, offset))
    }

    /// The same, if the kernel has them in memory; otherwise it fails, and nothing was waited for.
    pub fn read_now(&self, chunks: Range<usize>, into: &mut Vec<u8>, at: usize) -> Result<(), FileError> {
        self.read_with(chunks, into, at, |data, mut part, mut offset| {
            while !part.is_empty() {
                let read = preadv2(data, &mut [io::IoSliceMut::new(part)], offset, ReadWriteFlags::NOWAIT)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                part = &mut part[read..];
                offset += read as u64;
            }
            Ok(())
        })
    }

    fn read_with(
        &self,
        chunks: Range<usize>,
        into: &mut Vec<u8>,
        at: usize,
        reading: impl FnOnce(&File, &mut [u8], u64) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let (span, data) = {
            let mut state = self.shared.lock();
            self.load(&mut state)?;
            let body = body(&mut state);
            if let Some(chunk) = chunks.clone().find(|index| !body.held.contains(*index)) {
                return Err(FileError::NotHeld { chunk });
            }
            let span = body.list.span(chunks);
            (span, self.reading(&mut state)?)
        };
        let length = span.end - span.start;
        if length > READ_LIMIT {
            return Err(FileError::Disk(disk::Error::TooLarge { path: self.dir.clone(), limit: READ_LIMIT }));
        }
        into.resize(at + usize::try_from(length).unwrap_or(0), 0);
        let read = reading(&data, &mut into[at..], span.start);
        if read.is_err() {
            into.truncate(at);
        }
        read.map_err(|e| FileError::io(Operation::Read, &self.dir, e))
    }

    fn settle_generation(&self, state: &mut State, generation: u64) -> Result<(), FileError> {
        if state.generation == generation {
            return Ok(());
        }
        let nothing = state.whole.is_none() && body(state).list.is_empty();
        // With nothing listed there is nothing to mix up, and after all was thrown away here the others may be behind.
        if !nothing {
            return Err(FileError::Generation { ours: state.generation, theirs: generation });
        }
        self.start_over(state, generation)
    }

    fn about(&self, state: &mut State, total: Option<u64>, validators: &Validators) -> Result<(), FileError> {
        if state.whole.is_some() {
            return match (&state.seal, total) {
                (Some(seal), Some(said)) if seal.size != said => Err(FileError::Size { said, is: seal.size }),
                _ => Ok(()),
            };
        }
        let known = state.seal.as_ref().map(|seal| seal.size).or(state.about.total);
        if let (Some(is), Some(said)) = (known, total)
            && is != said
        {
            return Err(FileError::Size { said, is });
        }
        let total = total.or(state.about.total);
        let validators =
            if validators.is_empty() { state.about.validators.clone() } else { validators.clone() };
        let about = About { total, validators };
        if about != state.about || (state.writer.is_none() && total.is_some()) {
            if let Some(total) = total {
                self.allocate_of(state, total, Some(total))?;
            }
            self.writer(state)?.log.append(&[Record::About(&about)])?;
            state.about = about;
        }
        Ok(())
    }

    /// Room for the first `end` bytes.
    pub(super) fn allocate(&self, state: &mut State, end: u64) -> Result<(), FileError> {
        let total = state.seal.as_ref().map(|seal| seal.size).or(state.about.total);
        self.allocate_of(state, end, total)
    }

    pub(super) fn allocate_of(
        &self,
        state: &mut State,
        end: u64,
        total: Option<u64>,
    ) -> Result<(), FileError> {
        let writer = self.writer(state)?;
        if writer.allocated >= end {
            return Ok(());
        }
        let size = total.unwrap_or(end + ALLOCATE_AHEAD).max(end);
        let metadata = writer.data.metadata().map_err(|e| FileError::io(Operation::Inspect, &self.dir, e))?;
        // What was set aside before is for the same bytes.
        writer.room = None;
        // Not by its length: a file with holes has a length and no room.
        writer.room = Some(self.disk.reserve(&self.dir, size.saturating_sub(real_size(&metadata)))?);
        if metadata.len() < size {
            writer.data.set_len(size).map_err(|e| FileError::io(Operation::Truncate, &self.dir, e))?;
        }
        writer.allocated = size;
        Ok(())
    }

    fn grow(&self, state: &mut State, chunks: &[Chunk]) -> Result<(), FileError> {
        let limit = state.seal.as_ref().map(|seal| seal.size).or(state.about.total);
        let more: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
        let end = body(state).list.size() + more;
        if let Some(said) = limit
            && end > said
        {
            return Err(FileError::Size { said, is: end });
        }
        self.allocate(state, end)?;
        // Into memory first: a list that is refused must not be in the log.
        let body = body(state);
        let before = body.list.len();
        if let Err(error) = body.push(chunks) {
            body.list.truncate(before);
            return Err(error.into());
        }
        let logged = self.writer(state).and_then(|writer| writer.log.append(&[Record::Chunks(chunks)]));
        if logged.is_err()
            && let Some(body) = &mut state.body
        {
            body.list.truncate(before);
        }
        logged
    }

    /// Chunks whose bytes were written are here.
    pub(super) fn hold(&self, state: &mut State, chunks: Range<usize>, bytes: u64) -> Result<(), FileError> {
        self.writer(state)?.log.append(&[Record::Written(chunks.clone())])?;
        body(state).hold(chunks.clone());
        let held = body(state).bytes;
        if let Some(writer) = &mut state.writer
            && let Some(room) = &mut writer.room
        {
            room.shrink_to(writer.allocated.saturating_sub(held));
        }
        if sync::written(state, chunks, bytes) {
            self.shared.changed.notify_all();
        }
        Ok(())
    }
}

/// In parts: for long ones the kernel looks for memory that is free in one piece, and a virtual machine may have handed that
/// back to its host (measured, per GiB: 2.2 s of processor time with 2 MiB at a time, 1.0 s with 512 KiB, 0.25 s with these).
fn write(data: &File, bytes: &[u8], mut offset: u64) -> io::Result<()> {
    for part in bytes.chunks(WRITE_AT_ONCE) {
        data.write_all_at(part, offset)?;
        offset += part.len() as u64;
    }
    Ok(())
}

pub(super) fn body(state: &mut State) -> &mut Body {
    state.body.get_or_insert_default()
}

fn body_ref(state: &State) -> Option<&Body> {
    state.body.as_ref()
}

/// The chunks that so many bytes are, from `first` on.
fn plan(list: &ChunkList, first: usize, bytes: usize) -> Result<Vec<Chunk>, FileError> {
    let mut left = bytes;
    let mut planned = Vec::new();
    while left > 0 {
        let chunk = list.get(first + planned.len()).filter(|chunk| chunk.length as usize <= left);
        let Some(chunk) = chunk else { return Err(FileError::NotWhole { first, bytes }) };
        left -= chunk.length as usize;
        planned.push(chunk);
    }
    Ok(planned)
}

/// Neighbours are written at once.
fn extend_runs(runs: &mut Vec<(Range<usize>, Range<usize>)>, index: usize, bytes: Range<usize>) {
    match runs.last_mut() {
        Some((chunks, range)) if chunks.end == index => {
            chunks.end += 1;
            range.end = bytes.end;
        }
        _ => runs.push((index..index + 1, bytes)),
    }
}
