//! Taking chunks from other images of this disk, or from another disk of this node, instead of fetching them.
//!
//! Whatever is taken is verified after it arrived. Where the file system can, blocks are shared instead of copied.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError};

use logic::images::{Chunk, ChunkList, Hash, ImageId};
use rustix::fs::FallocateFlags;

use super::donors::{At, Donors, told};
use super::error::FileError;
use super::fill::body;
use super::image_file::{ImageFile, open_data};
use super::sync;

/// Blocks of file systems that can share them.
const BLOCK: u64 = 4096;
/// Taken at a time: so much is held in memory.
const MOST_AT_ONCE: u64 = 4 << 20;

/// What was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reused {
    pub chunks: usize,
    pub bytes: u64,
    /// Of those, without being copied.
    pub shared: u64,
}

impl std::ops::AddAssign for Reused {
    fn add_assign(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.shared += other.shared;
    }
}

/// Chunks of this image that lie side by side in a donor.
struct Run {
    chunks: Range<usize>,
    from: At,
}

impl ImageFile {
    /// Takes chunks that other images of this disk hold. Those that were looked for before are not looked for again: it
    /// may be called each time the list has grown.
    pub fn fill_from_this_disk(&self) -> Result<Reused, FileError> {
        let looked = {
            let mut state = self.shared.lock();
            self.load(&mut state)?;
            if state.whole.is_some() || state.touched.is_some() {
                return Ok(Reused::default());
            }
            let listed = body(&mut state).list.len();
            let looked = state.looked_for.min(listed)..listed;
            state.looked_for = listed;
            looked
        };
        if looked.is_empty() {
            return Ok(Reused::default());
        }
        let mut reused = self.leave_zeros_out(looked.clone())?;
        let donors = self.donors()?;
        let runs = self.with(|list, held, _| {
            let missing = looked.filter(|index| !held.contains(*index));
            runs(missing, |index, after| {
                list.get(index).and_then(|chunk| donors.find(&chunk.hash, &self.dir, after))
            })
        })?;
        let mut open: Option<(usize, Donor)> = None;
        for run in runs {
            if open.as_ref().is_none_or(|(number, _)| *number != run.from.donor) {
                let Some(donor) = Donor::open_by_dir(donors.dir(run.from.donor)) else { continue };
                open = Some((run.from.donor, donor));
            }
            if let Some((_, donor)) = &open {
                reused += self.take_run(&run, donor)?;
            }
        }
        Ok(reused)
    }

    /// Takes chunks from the same image on another disk of this node: `dir` is its directory there.
    pub fn copy_from(&self, dir: &Path) -> Result<Reused, FileError> {
        super::disk_dir::directory(dir)?;
        let Some(donor) = Donor::open(dir, &self.id)? else { return Ok(Reused::default()) };
        let runs = self.with(|list, held, _| {
            // Only as far as both lists agree: the other one may be of another generation.
            let same =
                list.chunks().iter().zip(donor.list.chunks()).take_while(|(ours, theirs)| ours == theirs);
            let missing =
                (0..same.count()).filter(|index| !held.contains(*index) && donor.held.contains(*index));
            runs(missing, |index, _| Some(At { donor: 0, chunk: index }))
        })?;
        let mut reused = Reused::default();
        for run in runs {
            reused += self.take_run(&run, &donor)?;
        }
        Ok(reused)
    }

    /// Chunks that are nothing but zeros need no bytes, from nowhere. Longer runs of zeros are always cut like this.
    fn leave_zeros_out(&self, looked: Range<usize>) -> Result<Reused, FileError> {
        let zeros = zeros();
        let found: Vec<(usize, u64)> = self.with(|list, held, _| {
            let is_zeros = |index: &usize| list.get(*index) == Some(zeros) && !held.contains(*index);
            looked.filter(is_zeros).map(|index| (index, list.start(index))).collect()
        })?;
        let length = u64::from(zeros.length);
        for (index, start) in &found {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.shared.lock();
            let data = Arc::clone(&self.writer(&mut state)?.data);
            // A hole, where the file system has them; then it reads as what it is, and takes no room.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            if rustix::fs::fallocate(&data, flags, *start, length).is_err() {
                data.write_all_at(&vec![0; zeros.length as usize], *start)
                    .map_err(|e| FileError::io(disk::Operation::Write, &self.dir, e))?;
            }
            self.hold(&mut state, *index..*index + 1, length)?;
            self.shared.publish(&state);
        }
        Ok(Reused { chunks: found.len(), bytes: found.len() as u64 * length, shared: 0 })
    }

    /// Kept while this image is filled.
    fn donors(&self) -> Result<Arc<Donors>, FileError> {
        let kept = self.shared.lock().donors.clone();
        if let Some(donors) = kept {
            return Ok(donors);
        }
        let donors = Donors::of(&self.disk)?;
        self.shared.lock().donors = Some(Arc::clone(&donors));
        Ok(donors)
    }

    fn take_run(&self, run: &Run, donor: &Donor) -> Result<Reused, FileError> {
        let mut reused = Reused::default();
        let mut start = run.chunks.start;
        while start < run.chunks.end {
            let end = self.with(|list, _, _| {
                let fits = |end: &usize| list.start(*end) - list.start(start) <= MOST_AT_ONCE;
                (start + 2..=run.chunks.end).take_while(fits).last().unwrap_or(start + 1)
            })?;
            let from = run.from.chunk + (start - run.chunks.start);
            reused += self.take_part(start..end, from, donor)?;
            start = end;
        }
        Ok(reused)
    }

    fn take_part(&self, chunks: Range<usize>, from: usize, donor: &Donor) -> Result<Reused, FileError> {
        let span = self.with(|list, _, _| list.span(chunks.clone()))?;
        let length = span.end - span.start;
        let Some(there) = donor.place(from, &chunks, length) else { return Ok(Reused::default()) };
        if there % BLOCK == span.start % BLOCK
            && let Some(reused) = self.share(&chunks, &span, there, donor)?
        {
            return Ok(reused);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        // A donor that is being changed, or is damaged, has nothing to give.
        if donor.file.read_exact_at(&mut bytes, there).is_err() {
            return Ok(Reused::default());
        }
        let put = self.put(chunks.start, &bytes)?;
        let bad: u64 = put
            .bad
            .iter()
            .filter_map(|bad| donor.list.get(from + bad - chunks.start))
            .map(|chunk| u64::from(chunk.length))
            .sum();
        Ok(Reused { chunks: put.good, bytes: length - bad, shared: 0 })
    }

    /// Shares the whole blocks, copies what lies before and behind them, and then looks whether it is right.
    fn share(
        &self,
        chunks: &Range<usize>,
        span: &Range<u64>,
        there: u64,
        donor: &Donor,
    ) -> Result<Option<Reused>, FileError> {
        let inner = span.start.next_multiple_of(BLOCK)..span.end / BLOCK * BLOCK;
        if inner.start >= inner.end {
            return Ok(None);
        }
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        let data = {
            let mut state = self.shared.lock();
            Arc::clone(&self.writer(&mut state)?.data)
        };
        let there_inner = there + (inner.start - span.start);
        let shared =
            disk::share_blocks(&donor.file, there_inner, &data, inner.start, inner.end - inner.start);
        if !shared.map_err(|e| FileError::io(disk::Operation::Clone, &self.dir, e))? {
            return Ok(None);
        }
        for edge in [span.start..inner.start, inner.end..span.end] {
            let mut bytes = vec![0; usize::try_from(edge.end - edge.start).unwrap_or(0)];
            if donor.file.read_exact_at(&mut bytes, there + (edge.start - span.start)).is_ok() {
                data.write_all_at(&bytes, edge.start)
                    .map_err(|e| FileError::io(disk::Operation::Write, &self.dir, e))?;
            }
        }
        let list: ChunkList = self.with(|list, _, _| list.part(chunks.clone()))?;
        let (mut reused, mut bytes) =
            (Reused { shared: inner.end - inner.start, ..Reused::default() }, vec![]);
        for (number, index) in chunks.clone().enumerate() {
            let Some(chunk) = list.get(number) else { continue };
            bytes.resize(chunk.length as usize, 0);
            let at = span.start + list.start(number);
            if data.read_exact_at(&mut bytes, at).is_ok() && Hash::of(&bytes) == chunk.hash {
                let mut state = self.shared.lock();
                self.hold(&mut state, index..index + 1, u64::from(chunk.length))?;
                reused.chunks += 1;
                reused.bytes += u64::from(chunk.length);
            }
        }
        let state = self.shared.lock();
        self.shared.publish(&state);
        drop(sync::wait_for_room(&self.shared, state));
        Ok(Some(reused))
    }
}

/// The longest chunk, of zeros.
fn zeros() -> Chunk {
    static ZEROS: LazyLock<Hash> = LazyLock::new(|| Hash::of(&vec![0; ChunkList::LONGEST_CHUNK as usize]));
    Chunk { hash: *ZEROS, length: ChunkList::LONGEST_CHUNK }
}

/// An image that chunks are taken from.
struct Donor {
    file: File,
    list: ChunkList,
    held: logic::images::Held,
}

impl Donor {
    fn open(dir: &Path, id: &ImageId) -> Result<Option<Self>, FileError> {
        let Some(told) = told(dir, id)? else { return Ok(None) };
        let file = match open_data(dir, false) {
            Ok(file) => file,
            Err(FileError::Disk(error)) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self { file, list: told.list, held: told.held }))
    }

    fn open_by_dir(dir: &Path) -> Option<Self> {
        let name = dir.file_name()?.to_str()?;
        let id = ImageId::parse(name.get(name.len().checked_sub(36)?..)?).ok()?;
        Self::open(dir, &id).ok()?
    }

    /// Where so many chunks from `first` on lie, if they still are as long as those that are wanted.
    fn place(&self, first: usize, chunks: &Range<usize>, length: u64) -> Option<u64> {
        let span = self.list.span(first..first + chunks.len());
        (span.end - span.start == length).then_some(span.start)
    }
}

/// Neighbours that are neighbours there, too.
fn runs(missing: impl Iterator<Item = usize>, find: impl Fn(usize, Option<At>) -> Option<At>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for index in missing {
        let after = runs
            .last()
            .filter(|run| run.chunks.end == index)
            .map(|run| At { chunk: run.from.chunk + run.chunks.len() - 1, ..run.from });
        let Some(found) = find(index, after) else { continue };
        match (runs.last_mut(), after) {
            (Some(run), Some(after)) if found == (At { chunk: after.chunk + 1, ..after }) => {
                run.chunks.end += 1
            }
            _ => runs.push(Run { chunks: index..index + 1, from: found }),
        }
    }
    runs
}
