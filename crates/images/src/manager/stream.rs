//! Bytes of an image out over gRPC, for exports and backups. What was not verified is not sent.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use logic::images::{ChunkList, Hash};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::Status;
use wire::images::Data;

use super::entry::Entry;
use super::error::Refusal;
use crate::file::ImageFile;
use crate::transfer::Bandwidth;

/// Messages on their way at once, a piece each.
const AHEAD: usize = 4;

pub type Stream_<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A stream of what comes through a channel.
pub fn stream_of<T: Send + 'static>(receiver: mpsc::Receiver<Result<T, Status>>) -> Stream_<T> {
    Box::pin(futures_util::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|item| (item, receiver))
    }))
}

/// All from an offset on. The first message tells the size of the whole.
pub fn read(entry: &Arc<Entry>, offset: u64, outgoing: Arc<Bandwidth>) -> Result<Stream_<Data>, Refusal> {
    let filled = entry.file.filled_now();
    if !filled.downloaded {
        return Err(Refusal::NotDownloaded(entry.name.clone()));
    }
    let size = filled.bytes;
    if offset > 0 && offset >= size {
        return Err(Refusal::Beyond { name: entry.name.clone(), size });
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (entry, runtime) = (Arc::clone(entry), Handle::current());
    tokio::task::spawn_blocking(move || {
        let first = Data { data: bytes::Bytes::new(), size: Some(size) };
        if sender.blocking_send(Ok(first)).is_err() {
            return;
        }
        let pass = |bytes| runtime.block_on(outgoing.take(bytes));
        if let Err(refusal) = send_from(&entry, offset, &pass, &sender) {
            let _ = sender.blocking_send(Err(refusal.into()));
        }
    });
    Ok(stream_of(receiver))
}

fn send_from(
    entry: &Entry,
    offset: u64,
    pass: &dyn Fn(usize),
    sender: &mpsc::Sender<Result<Data, Status>>,
) -> Result<(), Refusal> {
    let file = &entry.file;
    let (chunks, mut at) = file.with(|list, _, _| {
        let at = (0..list.len()).find(|index| list.start(index + 1) > offset);
        (list.len(), at.unwrap_or(list.len()))
    })?;
    while at < chunks {
        let end = (at + ChunkList::CHUNKS_PER_PIECE).min(chunks);
        let mut bytes = Vec::new();
        file.read(at..end, &mut bytes, 0)?;
        let start = verified(file, at..end, &bytes)?;
        let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(0).min(bytes.len());
        let data = bytes::Bytes::from(bytes).slice(skip..);
        pass(data.len());
        if sender.blocking_send(Ok(Data { data, size: None })).is_err() {
            // Nobody reads any more.
            return Ok(());
        }
        at = end;
    }
    Ok(())
}

/// Where these chunks begin, if all of them are what they should be.
fn verified(file: &ImageFile, chunks: std::ops::Range<usize>, bytes: &[u8]) -> Result<u64, Refusal> {
    let (start, list) = file.with(|list, _, _| {
        let wanted: Vec<_> = chunks.clone().filter_map(|index| list.get(index)).collect();
        (list.start(chunks.start), wanted)
    })?;
    let mut rest = bytes;
    for (index, chunk) in chunks.zip(list) {
        let (content, after) = rest.split_at_checked(chunk.length as usize).unwrap_or((rest, &[]));
        if Hash::of(content) != chunk.hash {
            let _ = file.suspect(index);
            return Err(Refusal::Data(format!("chunk {index} is damaged on this disk: it is fetched again")));
        }
        rest = after;
    }
    Ok(start)
}
