//! Bringing what was written to the disk, behind the writers' backs, and recording it then.
//!
//! Writers wait only when they are far ahead: what is lost with the power is fetched again, so it is bounded.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use disk::Operation;

use super::error::FileError;
use super::image_file::Shared;
use super::record::Record;
use super::state::State;

/// So much is written before it is synced.
const CHECKPOINT: u64 = 32 << 20;
/// What comes slowly is synced that often: at the end little is left that all disks of a site would wait for at once.
const EVERY: Duration = Duration::from_secs(1);
/// So much may be written and not be on the disk.
const MOST_UNSYNCED: u64 = 64 << 20;
/// Of one record.
const RANGES_PER_RECORD: usize = 8192;

/// Starts the thread that syncs an image while it is written. It ends with the writer.
pub(super) fn start(shared: &Arc<Shared>, dir: &Path) {
    let (shared, dir) = (Arc::clone(shared), dir.to_owned());
    let spawned = std::thread::Builder::new().name("image-sync".into()).spawn(move || {
        let mut state = shared.lock();
        let mut last = Instant::now();
        while !state.closed && state.writer.is_some() {
            let idle = state.syncing > 0 || state.unsynced.is_empty();
            let left = EVERY.saturating_sub(last.elapsed());
            state = if !idle && (state.unsynced_bytes >= CHECKPOINT || left.is_zero()) {
                let state = checkpoint(&shared, state);
                last = Instant::now();
                state
            } else if idle {
                shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    });
    if let Err(error) = spawned {
        // Whoever writes will sync when there is too much of it.
        tracing::warn!(dir = %dir.display(), %error, "can't start the thread that syncs");
    }
}

/// Notes that chunks were written. Whether the thread that syncs must hear of it: woken for each of them, it would take more of
/// the processor than it needs to sync.
pub(super) fn written(state: &mut State, chunks: Range<usize>, bytes: u64) -> bool {
    let (first, before) = (state.unsynced.is_empty(), state.unsynced_bytes);
    match state.unsynced.last_mut() {
        Some(last) if last.end == chunks.start => last.end = chunks.end,
        _ => state.unsynced.push(chunks),
    }
    state.unsynced_bytes += bytes;
    first || (before < CHECKPOINT && state.unsynced_bytes >= CHECKPOINT)
}

/// Waits while too much is not on the disk.
pub(super) fn wait_for_room<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
) -> MutexGuard<'a, State> {
    while state.backlog() > MOST_UNSYNCED && state.sync_failure.is_none() && state.writer.is_some() {
        state = if state.syncing == 0 {
            checkpoint(shared, state)
        } else {
            shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
    }
    state
}

/// All that was written is on the disk when this returns.
pub(super) fn flush(shared: &Shared, dir: &Path) -> Result<(), FileError> {
    let mut state = shared.lock();
    while state.syncing > 0 || !state.unsynced.is_empty() {
        state = if state.syncing == 0 {
            checkpoint(shared, state)
        } else {
            shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
        };
    }
    match state.sync_failure.take() {
        Some(errno) => Err(FileError::io(Operation::Sync, dir, std::io::Error::from_raw_os_error(errno))),
        None => Ok(()),
    }
}

/// Syncs what was written so far, and records it.
fn checkpoint<'a>(shared: &'a Shared, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    let ranges = std::mem::take(&mut state.unsynced);
    let bytes = std::mem::take(&mut state.unsynced_bytes);
    let Some(writer) = &state.writer else { return state };
    let (data, log, generation) = (Arc::clone(&writer.data), writer.log.handle(), state.generation);
    state.syncing += bytes.max(1);
    drop(state);
    let synced = data.sync_data();
    let mut state = shared.lock();
    state.syncing -= bytes.max(1);
    if state.generation == generation {
        match synced {
            Ok(()) => {
                let records: Vec<_> = ranges.chunks(RANGES_PER_RECORD).map(Record::Synced).collect();
                // Not recorded is not lost: it counts as written, and is verified after a crash.
                let recorded = state.writer.as_mut().map(|writer| writer.log.append(&records));
                if let Some(Err(error)) = recorded {
                    tracing::warn!(error = %oci::chain(&error), "can't record what was synced");
                }
            }
            Err(error) => {
                // The kernel may have thrown the pages away: nothing of it is known to be there.
                for index in ranges.iter().cloned().flatten() {
                    if let Some(body) = &mut state.body {
                        body.drop_chunk(index);
                    }
                    if let Some(writer) = &mut state.writer {
                        let _ = writer.log.append(&[Record::Dropped(index)]);
                    }
                }
                state.sync_failure =
                    Some(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()));
                shared.publish(&state);
            }
        }
    }
    shared.changed.notify_all();
    drop(state);
    if let Ok(log) = log {
        let _ = log.sync_data();
    }
    shared.lock()
}
