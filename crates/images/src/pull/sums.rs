//! The hashes of the whole, computed in order beside the fetching: from what a stream just brought, or from the file, as far
//! as it is there without a gap.
//!
//! The file serves a stream that goes on after an interruption, and chunks that come from peers in any order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use trust::digest::{Digest, Hasher};

use super::error::PullError;
use super::fresh::{Fresh, Look};
use crate::file::{FileError, ImageFile};

/// Read and hashed at a time.
const CHUNKS: usize = 16;

/// Hashes under way. They end with the token, with this, or when the whole is hashed.
pub(super) struct Sums {
    /// What a stream brings is handed to these as well.
    pub fresh: Arc<Fresh>,
    complete: Arc<AtomicBool>,
    sha256: Task,
    sha512: Option<Task>,
    stop: DropGuard,
}

type Task = JoinHandle<Result<Digest, FileError>>;

impl Sums {
    pub(super) fn start(file: &Arc<ImageFile>, with_sha512: bool, cancel: &CancellationToken) -> Self {
        let complete = Arc::new(AtomicBool::new(false));
        let cancel = cancel.child_token();
        let fresh = Fresh::new(1 + usize::from(with_sha512));
        let task = |number, hasher: Hasher| {
            let (file, complete, cancel) = (Arc::clone(file), Arc::clone(&complete), cancel.clone());
            let fresh = Arc::clone(&fresh);
            tokio::task::spawn_blocking(move || {
                let summed = sum(&file, &hasher, &complete, &cancel, &|generation, next| {
                    fresh.look(number, generation, next)
                });
                fresh.end(number);
                summed
            })
        };
        // A thread each: the longer one alone is about as long as all the rest.
        let sha256 = task(0, Hasher::sha256());
        let sha512 = with_sha512.then(|| task(1, Hasher::sha512()));
        Self { fresh, complete, sha256, sha512, stop: cancel.drop_guard() }
    }

    /// The list is complete and all of it is here: what the hashes are.
    pub(super) async fn finish(self, file: &ImageFile) -> Result<(Digest, Option<Digest>), PullError> {
        self.complete.store(true, Ordering::Release);
        file.wake();
        let worker = |error: tokio::task::JoinError| PullError::Worker(error.to_string());
        let sha256 = self.sha256.await.map_err(worker)??;
        let sha512 = match self.sha512 {
            Some(task) => Some(task.await.map_err(worker)??),
            None => None,
        };
        Ok((sha256, sha512))
    }

    /// Not needed any more. When this returns, nobody uses the file.
    pub(super) async fn stop(self) {
        let Self { sha256, sha512, stop, .. } = self;
        drop(stop);
        let _ = sha256.await;
        if let Some(task) = sha512 {
            let _ = task.await;
        }
    }
}

fn sum(
    file: &ImageFile,
    kind: &Hasher,
    complete: &AtomicBool,
    cancel: &CancellationToken,
    fresh: &dyn Fn(u64, usize) -> Look,
) -> Result<Digest, FileError> {
    let mut changes = file.filled();
    let mut generation = changes.borrow_and_update().generation;
    let (mut hasher, mut next, mut buffer) = (kind.clone(), 0, Vec::new());
    loop {
        if cancel.is_cancelled() {
            return Err(FileError::Cancelled);
        }
        // Before every look, also at whether all is there: what is not seen now is announced again.
        let now = changes.borrow_and_update().generation;
        let done = complete.load(Ordering::Acquire);
        if now != generation {
            (generation, hasher, next) = (now, kind.clone(), 0);
        }
        let before = match fresh(generation, next) {
            Look::Block(block) => {
                hasher.update(&block.bytes[..block.length]);
                next += block.chunks;
                continue;
            }
            Look::Before(chunk) => chunk,
        };
        let (end, listed) = file.with(|list, held, _| {
            (in_the_file(next, before.min(list.len()), |index| held.contains(index)), list.len())
        })?;
        if end == next {
            if done && next == listed {
                return Ok(hasher.finish());
            }
            let changed = async {
                tokio::select! {
                    changed = changes.changed() => changed.is_ok(),
                    () = cancel.cancelled() => false,
                }
            };
            if !Handle::current().block_on(changed) {
                return Err(FileError::Cancelled);
            }
            continue;
        }
        match file.read(next..end, &mut buffer, 0) {
            Ok(()) => {}
            // Dropped or thrown away since.
            Err(FileError::NotHeld { .. }) => continue,
            Err(error) => return Err(error),
        }
        // A chunk of another generation may have taken the place of the one that was looked at.
        if file.filled_now().generation == generation {
            hasher.update(&buffer);
            next = end;
        }
    }
}

/// Where what can be read from the file ends: `next`, if that is not there. It may be beyond the list: what a stream brings is
/// hashed before it is listed.
fn in_the_file(next: usize, most: usize, held: impl Fn(usize) -> bool) -> usize {
    let most = most.min(next + CHUNKS).max(next);
    (next..most).find(|index| !held(*index)).unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_up_to_the_first_gap_and_never_backwards() {
        let held = |index: usize| index != 5;
        assert_eq!(in_the_file(0, 100, held), 5);
        assert_eq!(in_the_file(5, 100, held), 5);
        assert_eq!(in_the_file(6, 100, held), 6 + CHUNKS);
        assert_eq!(in_the_file(6, 8, held), 8);
        assert_eq!(in_the_file(20, 8, held), 20, "hashed before it was listed");
    }
}
