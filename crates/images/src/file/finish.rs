//! The end of filling, and beginning again.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError};

use disk::{Operation, durable};
use logic::images::Seal;

use super::config::{self, Config, Modified, Shape};
use super::error::FileError;
use super::fill::body;
use super::format::shape_of;
use super::image_file::{CHUNKS, ImageFile, PARTIAL, WHOLE};
use super::log::Log;
use super::record::{About, Header, Record};
use super::state::{Body, State};
use super::sync;
use crate::qcow2::HEADER_BYTES;

impl ImageFile {
    /// What the image must add up to. Once set, it stays.
    pub fn set_seal(&self, seal: Seal) -> Result<(), FileError> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.lock();
        if let Some(known) = &state.seal {
            return if *known == seal { Ok(()) } else { Err(FileError::OtherSeal) };
        }
        self.load(&mut state)?;
        let listed = body(&mut state).list.size();
        let said = state.about.total.filter(|total| *total != seal.size);
        if let Some(said) = said {
            return Err(FileError::Size { said, is: seal.size });
        }
        if listed > seal.size || (listed == seal.size && !body(&mut state).list.adds_up_to(&seal)) {
            return Err(FileError::SealMismatch);
        }
        self.allocate_of(&mut state, seal.size, Some(seal.size))?;
        self.writer(&mut state)?.log.append(&[Record::Seal(&seal)])?;
        state.seal = Some(seal);
        self.shared.publish(&state);
        Ok(())
    }

    /// As [`Self::set_seal`], for one who computed it: a seal that lacks the SHA-512 is the same otherwise.
    pub(crate) fn seal_as(&self, seal: Seal) -> Result<(), FileError> {
        match self.seal() {
            Some(known) if known == (Seal { sha512: known.sha512.clone(), ..seal.clone() }) => Ok(()),
            _ => self.set_seal(seal),
        }
    }

    /// Makes it whole: every chunk is here and they add up to the seal. On disk when this returns; nothing to do is no error.
    pub fn finish(&self) -> Result<(), FileError> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let seal = {
            let mut state = self.shared.lock();
            if state.whole.is_some() {
                return Ok(());
            }
            if state.touched.is_some() {
                return Err(FileError::Incomplete { held: 0, listed: state.filled().listed });
            }
            let seal = state.seal.clone().ok_or(FileError::NotSealed)?;
            let body = body(&mut state);
            if !body.is_complete() {
                return Err(FileError::Incomplete { held: body.held.count(), listed: body.list.len() });
            }
            if !body.list.adds_up_to(&seal) {
                return Err(FileError::SealMismatch);
            }
            self.writer(&mut state)?;
            seal
        };
        sync::flush(&self.shared, &self.dir)?;
        let mut state = self.shared.lock();
        let shape = self.trim(&mut state, &seal)?;
        let body = body(&mut state);
        let chunks = body.list.len();
        let all = 0..chunks;
        let header = Header::new(&self.id, state.generation);
        let list = state.body.as_ref().map(|body| body.list.chunks()).unwrap_or_default();
        // Short again: what was written when is of no use any more.
        let records = [
            Record::Header(&header),
            Record::About(&state.about),
            Record::Chunks(list),
            Record::Synced(std::slice::from_ref(&all)),
            Record::Seal(&seal),
        ];
        let (_, stamp) = Log::create(&self.dir.join(CHUNKS), &records)?;
        state.stamp = Some(stamp);
        let (partial, whole) = (self.dir.join(PARTIAL), self.dir.join(WHOLE));
        if fs::symlink_metadata(&whole).is_err() {
            durable::rename_durably(&partial, &whole)?;
        }
        let metadata =
            fs::symlink_metadata(&whole).map_err(|e| FileError::io(Operation::Inspect, &whole, e))?;
        let config = Config {
            name: self.name.clone(),
            uuid: self.id.clone(),
            seal: seal.into(),
            chunks,
            generation: state.generation,
            format: shape.format,
            virtual_size: shape.virtual_size,
            modified: Modified::of(&metadata),
        };
        config.write(&self.dir)?;
        state.whole = Some(config);
        state.writer = None;
        state.donors = None;
        self.shared.publish(&state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Exactly as long as it is, with everything on the disk; and what kind of image that is.
    fn trim(&self, state: &mut State, seal: &Seal) -> Result<Shape, FileError> {
        let data = Arc::clone(&self.writer(state)?.data);
        let failed = |operation| move |e| FileError::io(operation, &self.dir, e);
        let mut header = vec![0; HEADER_BYTES.min(usize::try_from(seal.size).unwrap_or(HEADER_BYTES))];
        data.read_exact_at(&mut header, 0).map_err(failed(Operation::Read))?;
        let said = *self.format.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = shape_of(&header, seal.size, said)?;
        let length = data.metadata().map_err(failed(Operation::Inspect))?.len();
        if length != seal.size {
            data.set_len(seal.size).map_err(failed(Operation::Truncate))?;
        }
        data.sync_all().map_err(failed(Operation::Sync))?;
        Ok(shape)
    }

    /// The origin has another image now: all that was fetched is thrown away, and a new generation begins.
    pub fn restart(&self) -> Result<(), FileError> {
        let next = self.filled_now().generation + 1;
        self.restart_at(next)
    }

    /// As [`Self::restart`], for one who follows: with the generation that the others are at.
    pub fn restart_at(&self, generation: u64) -> Result<(), FileError> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.lock();
        if state.whole.is_some() {
            return Err(FileError::Whole);
        }
        if generation <= state.generation {
            return Err(FileError::Generation { ours: state.generation, theirs: generation });
        }
        self.load(&mut state)?;
        self.start_over(&mut state, generation)?;
        self.shared.publish(&state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Takes the image, whole or not, for nothing: its bytes go, its directory stays.
    pub fn discard(&self) -> Result<(), FileError> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.lock();
        self.load(&mut state)?;
        state.whole = None;
        state.touched = None;
        let next = state.generation + 1;
        self.start_over(&mut state, next)?;
        self.shared.publish(&state);
        self.shared.changed.notify_all();
        Ok(())
    }

    pub(super) fn start_over(&self, state: &mut State, generation: u64) -> Result<(), FileError> {
        self.writer(state)?;
        // What is gone must not be called whole: the record of it goes first.
        let (config, whole) = (self.dir.join(config::NAME), self.dir.join(WHOLE));
        remove_if_there(&config)?;
        let header = Header::new(&self.id, generation);
        let about = About::default();
        let (log, stamp) =
            Log::create(&self.dir.join(CHUNKS), &[Record::Header(&header), Record::About(&about)])?;
        if fs::symlink_metadata(&whole).is_ok() {
            fs::rename(&whole, self.dir.join(PARTIAL))
                .map_err(|e| FileError::io(Operation::Rename, &whole, e))?;
        }
        state.generation = generation;
        state.stamp = Some(stamp);
        state.about = about;
        state.seal = None;
        state.body = Some(Body::default());
        state.unsynced.clear();
        state.unsynced_bytes = 0;
        state.looked_for = 0;
        state.donors = None;
        let writer = self.writer(state)?;
        writer.log = log;
        writer.allocated = 0;
        writer.room = None;
        writer.data.set_len(0).map_err(|e| FileError::io(Operation::Truncate, &self.dir, e))
    }
}

pub(super) fn remove_if_there(path: &std::path::Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(durable::sync_dir(path.parent().unwrap_or(path))?),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(FileError::io(Operation::Remove, path, e)),
    }
}
