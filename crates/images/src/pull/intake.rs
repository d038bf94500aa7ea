//! A stream of bytes becomes chunks in the file: read by one task, cut, hashed and written by another thread.

use std::sync::Arc;

use bytes::Bytes;
use logic::images::{Chunk, Hash};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::error::PullError;
use super::fresh::{Block, Fresh};
use crate::file::{FileError, ImageFile, cut, shape_of};
use crate::origin::{Body, OriginError};
use crate::qcow2::HEADER_BYTES;
use crate::throttle::Throttle;

/// Cut, hashed and written at a time.
const BLOCK: usize = 1 << 20;
/// Pieces that wait for the writer; one is as long as the network's buffer.
const AHEAD: usize = 16;
const LONGEST_PIECE: usize = 256 << 10;

enum Piece {
    Bytes(Bytes),
    /// Nothing follows: the whole came. Without this the stream broke off.
    End,
}

/// Puts a stream into the file that begins with chunk number `first`: chunks that are listed already must be the same, what
/// follows is added to the list. Gives the number of bytes, if the stream came to its end.
pub(super) async fn take(
    file: &Arc<ImageFile>,
    first: usize,
    mut body: Body,
    fresh: &Arc<Fresh>,
    limit: u64,
    throttle: &Throttle,
    cancel: &CancellationToken,
) -> Result<u64, PullError> {
    let (sender, pieces) = mpsc::channel(AHEAD);
    let (target, fresh, address) = (Arc::clone(file), Arc::clone(fresh), body.address().to_owned());
    let writing = tokio::task::spawn_blocking(move || Writer::new(&target, first, &fresh).run(pieces));
    let mut received = 0;
    let reading = async {
        while let Some(bytes) = body.next().await? {
            received += bytes.len() as u64;
            if received > limit {
                return Err(PullError::Origin(OriginError::TooLarge { address: address.clone(), limit }));
            }
            throttle.pass(bytes.len() as u64).await;
            for start in (0..bytes.len()).step_by(LONGEST_PIECE) {
                let piece = bytes.slice(start..bytes.len().min(start + LONGEST_PIECE));
                if sender.send(Piece::Bytes(piece)).await.is_err() {
                    // Why the writer stopped, it says itself.
                    return Ok(());
                }
            }
        }
        let _ = sender.send(Piece::End).await;
        Ok(())
    };
    let read = tokio::select! {
        read = reading => read,
        () = cancel.cancelled() => Err(PullError::Cancelled),
    };
    drop(sender);
    // What came is written, whatever happened then.
    let written = writing.await.map_err(|error| PullError::Worker(error.to_string()))?;
    match (read, written) {
        (_, Err(error)) => Err(error),
        (Err(error), _) => Err(error),
        (Ok(()), Ok(())) => Ok(received),
    }
}

struct Writer<'a> {
    file: &'a ImageFile,
    fresh: &'a Fresh,
    generation: u64,
    /// The chunk that the buffer begins with.
    at: usize,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(file: &'a ImageFile, at: usize, fresh: &'a Fresh) -> Self {
        let generation = file.filled_now().generation;
        Self { file, fresh, generation, at, buffer: Vec::with_capacity(BLOCK + LONGEST_PIECE) }
    }

    fn run(mut self, mut pieces: mpsc::Receiver<Piece>) -> Result<(), PullError> {
        loop {
            match pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => {
                    self.buffer.extend_from_slice(&bytes);
                    if self.buffer.len() >= BLOCK {
                        self.flush(false)?;
                    }
                }
                Some(Piece::End) => return self.flush(true),
                // Broken off: the last chunk has no end yet.
                None => return self.flush(false),
            }
        }
    }

    fn flush(&mut self, last: bool) -> Result<(), PullError> {
        let ranges = cut(&self.buffer, last);
        let Some(end) = ranges.last().map(|range| range.end) else { return Ok(()) };
        if self.at == 0 {
            // Refused by its first bytes, before all the others are fetched.
            let header = &self.buffer[..self.buffer.len().min(HEADER_BYTES)];
            shape_of(header, 0, self.file.format()).map_err(FileError::from)?;
        }
        let bytes = Arc::new(std::mem::take(&mut self.buffer));
        let chunk = |range: &std::ops::Range<usize>| Chunk {
            hash: Hash::of(&bytes[range.clone()]),
            length: u32::try_from(range.len()).unwrap_or(u32::MAX),
        };
        let chunks: Vec<Chunk> = ranges.iter().map(chunk).collect();
        let listed = self.file.with(|list, _, _| {
            let known = list.chunks().get(self.at..).unwrap_or_default();
            let known = &known[..known.len().min(chunks.len())];
            (known == &chunks[..known.len()]).then_some(known.len())
        })?;
        let Some(listed) = listed else { return Err(another()) };
        // Before they are listed: whoever waits for that finds them. If they can't be, all that was hashed is void.
        let block = Block {
            generation: self.generation,
            first: self.at,
            chunks: chunks.len(),
            length: end,
            bytes: Arc::clone(&bytes),
        };
        self.buffer = self.fresh.offer(block);
        self.buffer.reserve(BLOCK + LONGEST_PIECE);
        self.buffer.extend_from_slice(&bytes[end..]);
        let split = ranges.get(listed).map_or(end, |range| range.start);
        if listed > 0 {
            self.file.put(self.at, &bytes[..split])?;
        }
        if listed < chunks.len() {
            self.file.append(self.at + listed, &chunks[listed..], &bytes[split..end]).map_err(|error| {
                // More than was said, or the list grew meanwhile by somebody else's hand.
                match error {
                    FileError::Size { .. } => another(),
                    error => error.into(),
                }
            })?;
        }
        self.at += chunks.len();
        Ok(())
    }
}

fn another() -> PullError {
    PullError::Origin(OriginError::Changed { address: "the origin".into() })
}
