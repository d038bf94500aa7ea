//! Reading every byte again, now and then and gently: what a disk loses in silence is found before it is needed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::entry::Entry;
use super::registry::{Registry, blocking};
use crate::file::{FileError, ImageFile};

/// Bytes a second: a tenth of what a plain disk reads.
const RATE: u64 = 32 << 20;
/// How often it is looked whether anything is due.
const LOOK: Duration = Duration::from_secs(600);

/// Scrubs whatever was not verified for `interval`, one image after the other; never, if it is zero.
pub async fn scrub(registry: Arc<Registry>, interval: Duration, cancel: CancellationToken) {
    if interval.is_zero() {
        return;
    }
    // On the way out while it is read.
    let _stop = cancel.clone().drop_guard();
    loop {
        tokio::time::sleep(LOOK.min(interval)).await;
        for entry in registry.all() {
            if entry.is_busy() || entry.is_offered() || !is_due(&entry.file, interval, SystemTime::now()) {
                continue;
            }
            let (file, cancel) = (Arc::clone(&entry.file), cancel.clone());
            match blocking(move || gently(&file, RATE, &cancel)).await {
                Ok(Ok(bad)) if !bad.is_empty() => tell(&entry, bad.len()),
                Ok(Err(error)) if !matches!(error, FileError::Cancelled) => {
                    tracing::warn!(image = %entry.name, error = %oci::chain(&error), "can't be verified");
                }
                _ => {}
            }
        }
    }
}

fn tell(entry: &Entry, bad: usize) {
    tracing::warn!(image = %entry.name, bad, "damaged on this disk");
    entry.fail(format!("{bad} chunks are damaged on this disk: they have to be fetched again"));
}

fn is_due(file: &ImageFile, interval: Duration, now: SystemTime) -> bool {
    let since = |then: SystemTime| now.duration_since(then).unwrap_or_default();
    file.filled_now().downloaded && file.verified_at().is_some_and(|then| since(then) >= interval)
}

/// Which chunks are bad, read no faster than `rate`.
fn gently(file: &ImageFile, rate: u64, cancel: &CancellationToken) -> Result<Vec<usize>, FileError> {
    let (begin, mut read) = (Instant::now(), 0_u64);
    file.scrub(&mut |bytes| {
        read += bytes;
        let due = Duration::from_secs_f64(read as f64 / rate as f64);
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        !cancel.is_cancelled()
    })
}
