//! Chunks that are listed and not here, and that nobody else of the site has: asked of the origin by range.

use std::ops::Range;
use std::sync::Arc;

use logic::images::{ChunkList, Held};
use tokio_util::sync::CancellationToken;

use super::error::PullError;
use super::fresh::Fresh;
use super::intake;
use crate::file::ImageFile;
use crate::origin::{Known, Origin, OriginError};
use crate::throttle::Throttle;

/// Put in at a time.
const BLOCK: u64 = 2 << 20;
/// Gaps that are closer than this are fetched as one: a request costs more than the bytes between.
const BRIDGE: usize = 4;

/// Runs of chunks that are missing, and that `elsewhere` (pieces) does not have.
pub(super) fn runs(list: &ChunkList, held: &Held, elsewhere: &Held) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in 0..list.len() {
        let piece = ChunkList::piece_of(index).0 as usize;
        if held.contains(index) || elsewhere.contains(piece) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if index - last.end <= BRIDGE => last.end = index + 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

pub(super) async fn fetch(
    file: &Arc<ImageFile>,
    origin: &Origin,
    run: Range<usize>,
    known: &Known,
    throttle: &Throttle,
    cancel: &CancellationToken,
) -> Result<(), PullError> {
    let (span, lengths) = file.with(|list, _, _| {
        let lengths: Vec<u32> = list.chunks()[run.clone()].iter().map(|chunk| chunk.length).collect();
        (list.span(run.clone()), lengths)
    })?;
    let mut opened = origin.open(span.start, Some(span.end), known).await?;
    if opened.start != span.start {
        // It has no parts to give: all of it, then, and whatever is missing is put in on the way.
        let most = file.filled_now().total.unwrap_or(u64::MAX);
        intake::take(file, 0, opened.body, &Fresh::new(0), most, throttle, cancel).await?;
        return Ok(());
    }
    let (mut buffer, mut at, mut lengths) = (Vec::new(), run.start, lengths.into_iter().peekable());
    let mut received = 0;
    while at < run.end {
        let next = tokio::select! {
            next = opened.body.next() => next?,
            () = cancel.cancelled() => return Err(PullError::Cancelled),
        };
        let ended = next.is_none();
        if let Some(bytes) = next {
            received += bytes.len() as u64;
            throttle.pass(bytes.len() as u64).await;
            buffer.extend_from_slice(&bytes);
        }
        let enough = buffer.len() as u64 >= BLOCK || received >= span.end - span.start || ended;
        if !enough {
            continue;
        }
        let (mut whole, mut count) = (0, 0);
        while let Some(length) = lengths.next_if(|length| whole + *length as usize <= buffer.len()) {
            whole += length as usize;
            count += 1;
        }
        if count > 0 {
            let rest = buffer.split_off(whole);
            let (target, bytes) = (Arc::clone(file), std::mem::replace(&mut buffer, rest));
            let put = tokio::task::spawn_blocking(move || target.put(at, &bytes));
            let put = put.await.map_err(|error| PullError::Worker(error.to_string()))??;
            if !put.bad.is_empty() {
                return Err(OriginError::Changed { address: origin.shown() }.into());
            }
            at += count;
        }
        if ended && at < run.end {
            return Err(PullError::Short { received, expected: span.end - span.start });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::images::{Chunk, Hash};

    #[test]
    fn only_what_nobody_has_is_fetched_and_near_gaps_at_once() {
        let mut list = ChunkList::default();
        for _ in 0..64 {
            list.push(Chunk { hash: Hash::of(b"x"), length: 1000 }).unwrap();
        }
        let mut held = Held::all(64);
        for index in [1, 3, 20, 40, 41] {
            held.remove(index);
        }
        let second: Held = [1].into_iter().collect();
        assert_eq!(runs(&list, &held, &second), [1..4, 40..42]);
        assert_eq!(runs(&list, &held, &Held::default()), [1..4, 20..21, 40..42]);
        assert_eq!(runs(&list, &Held::all(64), &Held::default()), Vec::<Range<usize>>::new());
    }
}
