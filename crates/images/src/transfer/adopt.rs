//! Taking over: who goes on with a pull first takes up the longest list that the site has, so that nothing that is there
//! already is fetched from the origin again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{ReadHalf, WriteHalf};

use super::error::ReceiveError;
use super::frame::{Ask, Known, Tell};
use super::io::{Frames, blocking, write};
use super::limits::Limits;
use super::peer::{Dial, Dialled, Peer, Stream};
use crate::file::{FileError, ImageFile, Validators};

/// For a peer to say what it has, and for its list.
const WITHIN: Duration = Duration::from_secs(15);
/// Peers that are asked: of a thousand, some will have as much as any.
const MOST_PEERS: usize = 16;

/// A peer that said how far it is.
struct Candidate {
    frames: Frames<ReadHalf<Box<dyn Stream>>>,
    /// Kept, for with it the connection ends.
    _writing: WriteHalf<Box<dyn Stream>>,
    generation: u64,
    listed: usize,
    peer: Peer,
}

/// Takes up the longest list of the peers, if one is longer than ours. Peers that don't answer, or contradict what is known here,
/// are passed over.
pub async fn adopt(
    file: &Arc<ImageFile>,
    peers: &[Peer],
    dial: &Arc<dyn Dial>,
    limits: &Limits,
) -> Result<(), ReceiveError> {
    let own = file.disk().id();
    let others = peers.iter().filter(|peer| peer.disk != *own).take(MOST_PEERS);
    let asked: FuturesUnordered<_> = others
        .map(|peer| async move {
            tokio::time::timeout(WITHIN, meet(file, peer, dial, limits)).await.ok().flatten()
        })
        .collect();
    let mut candidates: Vec<Candidate> = asked.filter_map(std::future::ready).collect().await;
    candidates.sort_by_key(|candidate| (candidate.generation, candidate.listed));
    while let Some(mut candidate) = candidates.pop() {
        let filled = file.filled_now();
        let ours = (filled.generation, filled.listed);
        if filled.downloaded
            || (candidate.generation, candidate.listed) <= ours && filled.listed > 0
            || candidate.listed == 0
        {
            return Ok(());
        }
        let taken = tokio::time::timeout(WITHIN, take_list(file, &mut candidate)).await;
        match taken {
            Ok(Ok(true)) => return Ok(()),
            Ok(Err(error)) if !error.is_contradiction() => return Err(error.into()),
            _ => {
                tracing::info!(image = %file.name(), peer = %candidate.peer.address, "its list can't be taken up")
            }
        }
    }
    Ok(())
}

async fn meet(
    file: &Arc<ImageFile>,
    peer: &Peer,
    dial: &Arc<dyn Dial>,
    limits: &Limits,
) -> Option<Candidate> {
    let Dialled { ticket, stream } = dial.dial(peer, file.name(), file.id()).await.ok()?;
    let (reading, mut writing) = tokio::io::split(stream);
    let mut out = Vec::new();
    // As if nothing was known: what is, is compared with it.
    Ask::Hello { ticket, known: Known::default() }.write(&mut out);
    write(&mut writing, &out, limits.silence).await.ok()?;
    let mut frames = Frames::new(reading);
    let Ok(Tell::Hello { generation, listed }) = frames.tell().await else { return None };
    Some(Candidate { frames, _writing: writing, generation, listed: listed as usize, peer: peer.clone() })
}

/// Whether all of it came.
async fn take_list(file: &Arc<ImageFile>, candidate: &mut Candidate) -> Result<bool, FileError> {
    let generation = candidate.generation;
    let (mut total, mut known) = (None, Validators::default());
    let filled = file.filled_now();
    if generation > filled.generation && filled.listed > 0 {
        let restarting = Arc::clone(file);
        run(move || restarting.restart_at(generation)).await?;
    }
    loop {
        match candidate.frames.tell().await {
            Ok(Tell::About { total: said, validators }) => (total, known) = (said, validators),
            Ok(Tell::List { at, chunks }) => {
                let (extending, validators) = (Arc::clone(file), known.clone());
                run(move || extending.extend(generation, at as usize, &chunks, total, &validators)).await?;
            }
            Ok(Tell::Held { .. }) => return Ok(file.filled_now().listed >= candidate.listed),
            Ok(_) => {}
            Err(_) => return Ok(false),
        }
    }
}

async fn run(work: impl FnOnce() -> Result<(), FileError> + Send + 'static) -> Result<(), FileError> {
    blocking(work).await.unwrap_or(Err(FileError::Cancelled))
}
