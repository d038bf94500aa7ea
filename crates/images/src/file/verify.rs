//! Reading again what is here: after the file was touched, when somebody doubts a chunk, and now and then all of it.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use disk::Operation;
use logic::images::{Chunk, ChunkList, Hash, Held, Seal};

use super::config::{self, Config, Modified};
use super::cut::cut;
use super::error::FileError;
use super::fill::body;
use super::finish::remove_if_there;
use super::image_file::{CHUNKS, ImageFile, WHOLE, open_data};
use super::log::Log;
use super::record::{Header, Record};
use super::state::{Body, State};

const BUFFER: usize = 4 << 20;

/// Asked between reads, with the bytes that were read since: may wait, to be gentle; false to stop.
pub type Pace<'a> = &'a mut dyn FnMut(u64) -> bool;

impl ImageFile {
    /// Reads a touched image again. What is good is here from then on, what is bad is missing; if nothing is, it is whole
    /// again. Nothing to verify is no error.
    pub fn verify(&self, pace: Pace<'_>) -> Result<(), FileError> {
        let (touched, known) = {
            let state = self.shared.lock();
            let Some(touched) = state.touched.clone() else { return Ok(()) };
            (touched, state.body.as_ref().map(|body| body.list.clone()).unwrap_or_default())
        };
        let seal = Seal::from(touched.seal.clone());
        let (list, held) = if known.adds_up_to(&seal) {
            let held = self.good_chunks(&known, pace)?;
            (known, held)
        } else {
            let list = cut_again(&self.dir, seal.size, pace)?;
            if !list.adds_up_to(&seal) {
                // Nobody knows which of its bytes are good.
                return self.discard();
            }
            let held = Held::all(list.len());
            (list, held)
        };
        let all = held.count() == list.len();
        let mut state = self.shared.lock();
        state.body = Some(Body::new(list, held));
        if all && self.take_as_it_is(&mut state, touched)? {
            self.shared.publish(&state);
            return Ok(());
        }
        self.damaged(&mut state)?;
        self.shared.publish(&state);
        drop(state);
        // With all chunks good, only its length was wrong.
        if all { self.finish() } else { Ok(()) }
    }

    /// Somebody got a bad chunk from here. Whether it is bad here: then it is not here any more.
    pub fn suspect(&self, chunk: usize) -> Result<bool, FileError> {
        let mut state = self.shared.lock();
        self.load(&mut state)?;
        if !body(&mut state).held.contains(chunk) {
            return Ok(false);
        }
        let (data, list) = (self.reading(&mut state)?, &body(&mut state).list);
        let mut buffer = Vec::new();
        if is_good(&data, list, chunk, &mut buffer) {
            return Ok(false);
        }
        self.drop_bad(&mut state, &[chunk])?;
        Ok(true)
    }

    /// Reads all that is here. Which chunks are bad: they are not here any more.
    pub fn scrub(&self, pace: Pace<'_>) -> Result<Vec<usize>, FileError> {
        let (list, held, data) = {
            let mut state = self.shared.lock();
            self.load(&mut state)?;
            let data = self.reading(&mut state)?;
            let body = body(&mut state);
            (body.list.clone(), body.held.clone(), data)
        };
        let generation = self.filled_now().generation;
        let (mut bad, mut buffer) = (vec![], vec![]);
        for index in held.iter() {
            if !is_good(&data, &list, index, &mut buffer) {
                bad.push(index);
            }
            if !pace(buffer.len() as u64) {
                return Err(FileError::Cancelled);
            }
        }
        let mut state = self.shared.lock();
        if !bad.is_empty() && state.generation == generation {
            self.drop_bad(&mut state, &bad)?;
        } else if state.whole.is_some() {
            // When it was last verified is when its record was last written. That it can't be is found out next time.
            let config = fs::File::options().write(true).open(self.dir.join(config::NAME));
            let _ = config.and_then(|config| config.set_modified(SystemTime::now()));
        }
        Ok(bad)
    }

    /// When all of a whole image was last verified.
    pub fn verified_at(&self) -> Option<SystemTime> {
        fs::metadata(self.dir.join(config::NAME)).and_then(|metadata| metadata.modified()).ok()
    }

    /// Looks at time and size of a whole image. Whether it is as it was; otherwise it counts as nothing until it is verified.
    pub fn check(&self) -> Result<bool, FileError> {
        self.disk.check()?;
        let mut state = self.shared.lock();
        let Some(config) = &state.whole else { return Ok(true) };
        let path = self.dir.join(WHOLE);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() && config.fits(&metadata) => Ok(true),
            Ok(metadata) if metadata.is_file() => {
                self.load(&mut state)?;
                let config = state.whole.take();
                state.touched = config.or(state.touched.take());
                if let Some(body) = &mut state.body {
                    body.held = Held::default();
                    body.bytes = 0;
                }
                state.reading = None;
                self.shared.publish(&state);
                Ok(false)
            }
            // Gone: only its list is left, and that is enough to fetch it again.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let _ = self.load(&mut state);
                state.whole = None;
                if let Some(body) = &mut state.body {
                    body.held = Held::default();
                    body.bytes = 0;
                }
                state.reading = None;
                self.lost(&mut state)?;
                self.shared.publish(&state);
                Ok(false)
            }
            Ok(_) => Err(FileError::Stranger { path, why: "not a plain file" }),
            Err(e) => Err(FileError::io(Operation::Inspect, &path, e)),
        }
    }

    /// Chunks turned out bad: they are fetched again, and until then the image is not whole.
    fn drop_bad(&self, state: &mut State, chunks: &[usize]) -> Result<(), FileError> {
        let was_whole = state.whole.take().is_some();
        state.looked_for = 0;
        // Nobody is to take it for whole after a crash.
        remove_if_there(&self.dir.join(config::NAME))?;
        for chunk in chunks {
            body(state).drop_chunk(*chunk);
        }
        let dropped: Vec<_> = chunks.iter().map(|chunk| Record::Dropped(*chunk)).collect();
        self.shared.publish(state);
        let seal = state.seal.clone();
        let writer = self.writer(state)?;
        if let (true, Some(seal)) = (was_whole, &seal) {
            writer.log.append(&[Record::Seal(seal)])?;
        }
        writer.log.append(&dropped)
    }

    /// What is here of a touched image is recorded.
    fn damaged(&self, state: &mut State) -> Result<(), FileError> {
        remove_if_there(&self.dir.join(config::NAME))?;
        state.looked_for = 0;
        self.record(state)?;
        state.touched = None;
        Ok(())
    }

    /// The file is gone.
    fn lost(&self, state: &mut State) -> Result<(), FileError> {
        state.looked_for = 0;
        remove_if_there(&self.dir.join(config::NAME))?;
        self.record(state)
    }

    /// A new log of all that is known.
    fn record(&self, state: &mut State) -> Result<(), FileError> {
        let header = Header::new(&self.id, state.generation);
        self.writer(state)?;
        let empty = Body::default();
        let body = state.body.as_ref().unwrap_or(&empty);
        let held = ranges(&body.held);
        let mut records =
            vec![Record::Header(&header), Record::About(&state.about), Record::Chunks(body.list.chunks())];
        records.extend(held.chunks(8192).map(Record::Synced));
        records.extend(state.seal.as_ref().map(Record::Seal));
        let (log, stamp) = Log::create(&self.dir.join(CHUNKS), &records)?;
        state.stamp = Some(stamp);
        self.writer(state)?.log = log;
        Ok(())
    }

    /// Every chunk is good: only the record has to learn the new time. Whether that was all.
    fn take_as_it_is(&self, state: &mut State, config: Config) -> Result<bool, FileError> {
        let path = self.dir.join(WHOLE);
        let metadata =
            fs::symlink_metadata(&path).map_err(|e| FileError::io(Operation::Inspect, &path, e))?;
        if metadata.len() != config.seal.size {
            return Ok(false);
        }
        self.record(state)?;
        let config = Config { modified: Modified::of(&metadata), ..config };
        config.write(&self.dir)?;
        state.whole = Some(config);
        state.touched = None;
        state.writer = None;
        self.shared.changed.notify_all();
        Ok(true)
    }

    fn good_chunks(&self, list: &ChunkList, pace: Pace<'_>) -> Result<Held, FileError> {
        let file = Arc::new(open_data(&self.dir, false)?);
        let (mut held, mut buffer) = (Held::default(), vec![]);
        for index in 0..list.len() {
            if is_good(&file, list, index, &mut buffer) {
                held.insert(index);
            }
            if !pace(buffer.len() as u64) {
                return Err(FileError::Cancelled);
            }
        }
        Ok(held)
    }

    /// What the caller wants the image to be, if it was said.
    pub fn format(&self) -> Option<logic::images::Format> {
        *self.format.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chunk that can't be read is as bad as a wrong one.
fn is_good(file: &fs::File, list: &ChunkList, index: usize, buffer: &mut Vec<u8>) -> bool {
    let Some(Chunk { hash, length }) = list.get(index) else { return false };
    buffer.resize(length as usize, 0);
    file.read_exact_at(buffer, list.start(index)).is_ok() && Hash::of(buffer) == hash
}

fn ranges(held: &Held) -> Vec<std::ops::Range<usize>> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    for index in held.iter() {
        match ranges.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ => ranges.push(index..index + 1),
        }
    }
    ranges
}

/// The list of a file whose list was lost.
fn cut_again(dir: &Path, size: u64, pace: Pace<'_>) -> Result<ChunkList, FileError> {
    let file = open_data(dir, false)?;
    let mut list = ChunkList::default();
    let mut buffer = vec![0; BUFFER];
    let (mut filled, mut at) = (0, 0);
    loop {
        let read =
            file.read_at(&mut buffer[filled..], at).map_err(|e| FileError::io(Operation::Read, dir, e))?;
        at += read as u64;
        filled += read;
        let last = read == 0;
        if at > size {
            return Ok(ChunkList::default());
        }
        if !last && filled < buffer.len() {
            continue;
        }
        let chunks = cut(&buffer[..filled], last);
        for range in &chunks {
            let bytes = &buffer[range.clone()];
            list.push(Chunk {
                hash: Hash::of(bytes),
                length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            })?;
        }
        let end = chunks.last().map_or(0, |range| range.end);
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if !pace(end as u64) {
            return Err(FileError::Cancelled);
        }
        if last {
            return Ok(list);
        }
    }
}
