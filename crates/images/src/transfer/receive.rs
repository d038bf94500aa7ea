//! Receiving an image from peers: links come and go, the file fills, until it is whole.
//!
//! What to do next is decided by `logic::images::swarm::Receiver`; this tells it what happened, and does what it says.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use logic::images::swarm::{Action, LinkId, Moment, Parting, PeerId, Receiver};
use logic::images::{DiskId, Held, Piece};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::error::ReceiveError;
use super::frame::{Ask, Candidate};
use super::io::blocking;
use super::limits::Limits;
use super::link::{self, Context, Event, Handle, Say};
use super::peer::{Dial, Peer};
use crate::file::{FileError, ImageFile};

/// Events that wait for the one who decides; links wait if there are more.
const EVENTS: usize = 1024;
/// Between two looks at the file.
const GATHER: Duration = Duration::from_millis(5);
/// Between two looks at what peers have; it changes all the time.
const TELL_ELSEWHERE: Duration = Duration::from_millis(50);
/// Events that are taken before the next decision.
const AT_ONCE: usize = 256;

/// What is received from whom.
pub struct Receive {
    /// Who has the image, or part of it, or will; as it changes.
    pub peers: watch::Receiver<Vec<Peer>>,
    pub dial: Arc<dyn Dial>,
    /// Whether list and seal are taken from the peers. Beside a pull they are not: who pulls makes them.
    pub follow: bool,
    /// Addresses that bytes come from now.
    pub sources: watch::Sender<Vec<String>>,
    /// Pieces that peers have now, for one who pulls: they need not come from the origin.
    pub elsewhere: Option<watch::Sender<Held>>,
}

/// Receives until the image is downloaded; beside a pull, until it is, or until it is cancelled. Peers that give trouble are
/// no error: it goes on with others, and waits for others if there are none.
pub async fn receive(
    file: &Arc<ImageFile>,
    receive: Receive,
    limits: &Limits,
    cancelled: CancellationToken,
) -> Result<(), ReceiveError> {
    let (events, incoming) = mpsc::channel(EVENTS);
    let Receive { peers, dial, follow, sources, elsewhere } = receive;
    let context = Arc::new(Context { file: Arc::clone(file), dial, limits: limits.clone(), follow, events });
    let board = Board::new(file)?;
    let held = board.held.clone();
    let receiver = Receiver::new(limits.rules.clone(), seed(), held, board.pieces);
    let conductor = Conductor {
        context,
        receiver,
        board,
        links: HashMap::new(),
        peers: Vec::new(),
        start: Instant::now(),
        sources,
        elsewhere,
        told_elsewhere: Instant::now(),
    };
    tokio::select! {
        () = cancelled.cancelled() => Err(ReceiveError::Cancelled),
        received = conductor.conduct(incoming, peers) => received,
    }
}

struct Conductor {
    context: Arc<Context>,
    receiver: Receiver,
    board: Board,
    links: HashMap<LinkId, Handle>,
    /// Numbered as they were first heard of.
    peers: Vec<Peer>,
    start: Instant,
    sources: watch::Sender<Vec<String>>,
    elsewhere: Option<watch::Sender<Held>>,
    /// When it was last told what peers have.
    told_elsewhere: Instant,
}

impl Conductor {
    async fn conduct(
        mut self,
        mut events: mpsc::Receiver<Event>,
        mut peers: watch::Receiver<Vec<Peer>>,
    ) -> Result<(), ReceiveError> {
        let mut filled = self.context.file.filled();
        filled.mark_changed();
        let (mut look_at, mut alone) = (Instant::now(), false);
        self.set_peers(&peers.borrow_and_update().clone());
        loop {
            let new = filled.has_changed().unwrap_or(false);
            if new && look_at <= Instant::now() {
                filled.mark_unchanged();
                look_at = Instant::now() + GATHER;
                self.look()?;
                if self.finish().await? {
                    return Ok(());
                }
            }
            self.act();
            let wake = self.start + self.receiver.wake(self.now()).unwrap_or(self.context.limits.silence);
            let wake = if new { wake.min(look_at) } else { wake };
            tokio::select! {
                event = events.recv() => {
                    // The context has a sender: it is never closed.
                    let mut next = event;
                    let mut taken = 0;
                    while let Some(event) = next {
                        self.take(event).await?;
                        taken += 1;
                        next = if taken < AT_ONCE { events.try_recv().ok() } else { None };
                    }
                }
                changed = peers.changed(), if !alone => match changed {
                    Ok(()) => self.set_peers(&peers.borrow_and_update().clone()),
                    // Nobody will tell of others: go on with these.
                    Err(_) => alone = true,
                },
                _ = filled.changed(), if !new => filled.mark_changed(),
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.start.elapsed()
    }

    fn set_peers(&mut self, peers: &[Peer]) {
        let own = self.context.file.disk().id();
        let mut numbers = Vec::new();
        for peer in peers.iter().filter(|peer| peer.disk != *own) {
            let number = self.number(&peer.disk);
            match number {
                Some(number) => self.peers[number] = peer.clone(),
                None => self.peers.push(peer.clone()),
            }
            let number = number.unwrap_or(self.peers.len() - 1);
            numbers.push(PeerId(u32::try_from(number).unwrap_or(u32::MAX)));
        }
        self.receiver.set_peers(&numbers, self.now());
    }

    fn number(&self, disk: &DiskId) -> Option<usize> {
        self.peers.iter().position(|peer| peer.disk == *disk)
    }

    async fn take(&mut self, event: Event) -> Result<(), ReceiveError> {
        let now = self.now();
        match event {
            Event::Opened { link, held } => self.receiver.opened(link, held, now),
            Event::Has { link, pieces } => {
                pieces.into_iter().for_each(|piece| self.receiver.has(link, piece));
            }
            Event::Lost { link, pieces } => {
                pieces.into_iter().for_each(|piece| self.receiver.lost_by(link, piece));
            }
            Event::Turn { link, turn, served } => {
                let Some(handle) = self.links.get_mut(&link) else { return Ok(()) };
                if handle.turn != turn {
                    handle.turn = turn;
                    // What was asked in the turn before is forgotten.
                    self.receiver.turn(link, false, now);
                }
                self.receiver.turn(link, served, now);
            }
            Event::Sending { link, ask, piece } => self.receiver.sending(link, ask, piece, now),
            Event::Sent { link, piece } => self.sent(link, piece)?,
            Event::Parted { link, why, cause } => {
                if let Some(peer) = self.peer_of(link) {
                    tracing::debug!(image = %self.context.file.name(), peer = %peer.address, why = why.words(), cause, "a link is over");
                }
                self.links.remove(&link);
                self.receiver.parted(link, why, now);
            }
            Event::Liar { link } => {
                self.links.remove(&link);
                self.receiver.parted(link, Parting::Bad, now);
                self.throw_away().await?;
            }
            Event::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// The list is none of this image's. What the image must be stays known.
    async fn throw_away(&mut self) -> Result<(), ReceiveError> {
        let file = Arc::clone(&self.context.file);
        let thrown = blocking(move || {
            let seal = file.seal();
            file.discard()?;
            seal.map_or(Ok(()), |seal| file.set_seal(seal))
        });
        Ok(thrown.await.map_err(ReceiveError::Broken)??)
    }

    /// A look at this one piece, so that it is not asked for again before the next look at all of them.
    fn sent(&mut self, link: LinkId, piece: Piece) -> Result<(), ReceiveError> {
        self.collect_bytes();
        let whole = self.context.file.with(|list, held, _| {
            let chunks = list.chunks_of(piece);
            !chunks.is_empty() && held.contains_all(chunks)
        })?;
        if whole {
            self.receiver.got(piece);
        }
        self.receiver.sent(link, piece, self.now());
        Ok(())
    }

    fn peer_of(&self, link: LinkId) -> Option<&Peer> {
        let number = self.receiver.peer_of(link)?;
        self.peers.get(number.0 as usize)
    }

    fn collect_bytes(&mut self) {
        let now = self.start.elapsed();
        for (link, handle) in &self.links {
            let bytes = handle.bytes.swap(0, Ordering::Relaxed);
            if bytes > 0 {
                self.receiver.bytes(*link, bytes, now);
            }
        }
    }

    fn act(&mut self) {
        self.collect_bytes();
        let now = self.now();
        for action in self.receiver.next(now) {
            match action {
                Action::Dial { link, peer } => {
                    let Some(peer) = self.peers.get(peer.0 as usize) else { continue };
                    let handle = link::open(&self.context, link, peer.clone());
                    self.links.insert(link, handle);
                }
                Action::HangUp { link, why } => {
                    if let Some(handle) = self.links.remove(&link) {
                        tracing::info!(image = %self.context.file.name(), "hung up on a peer: {}", why.words());
                        handle.cancelled.cancel();
                    }
                }
                Action::Want { link, wants, served_by } => self.say(link, Ask::Want { wants, served_by }),
                Action::Ask { link, ask, candidates } => {
                    let turn = self.links.get(&link).map_or(0, |handle| handle.turn);
                    let of = self.missing(&candidates);
                    self.say(link, Ask::One { turn, ask, of });
                }
                Action::Cancel { link, piece } => self.say(link, Ask::Cancel { piece }),
            }
        }
        self.tell_sources();
        self.tell_elsewhere();
    }

    /// Which chunks of pieces are missing.
    fn missing(&self, pieces: &[Piece]) -> Vec<Candidate> {
        let missing = self.context.file.with(|list, held, _| {
            let of = |piece: &Piece| {
                let bits = list.chunks_of(*piece).enumerate().filter(|(_, index)| !held.contains(*index));
                Candidate { piece: *piece, missing: bits.fold(0, |mask, (bit, _)| mask | 1 << bit) }
            };
            pieces.iter().map(of).collect()
        });
        missing.unwrap_or_default()
    }

    /// A link that does not get rid of what it is to say is as good as broken.
    fn say(&mut self, link: LinkId, ask: Ask) {
        let Some(handle) = self.links.get(&link) else { return };
        if handle.say.try_send(Say::This(ask)).is_err() {
            handle.cancelled.cancel();
            self.links.remove(&link);
            self.receiver.parted(link, Parting::Broken, self.start.elapsed());
        }
    }

    fn tell_sources(&self) {
        let peers = self.receiver.sources().filter_map(|peer| self.peers.get(peer.0 as usize));
        let mut sources: Vec<String> = peers.map(|peer| peer.address.clone()).collect();
        sources.sort();
        self.sources.send_if_modified(|before| {
            let changed = *before != sources;
            *before = sources;
            changed
        });
    }

    fn tell_elsewhere(&mut self) {
        let Some(elsewhere) = &self.elsewhere else { return };
        if self.told_elsewhere.elapsed() < TELL_ELSEWHERE {
            return;
        }
        self.told_elsewhere = Instant::now();
        let pieces = self.receiver.elsewhere();
        elsewhere.send_if_modified(|before| {
            let changed = *before != pieces;
            *before = pieces;
            changed
        });
    }

    /// What the file has got, from wherever.
    fn look(&mut self) -> Result<(), ReceiveError> {
        let news = self.board.look()?;
        if news.restarted {
            // All began again: so do all links.
            for (_, handle) in self.links.drain() {
                handle.cancelled.cancel();
            }
            let now = self.now();
            self.receiver.begin_again(self.board.held.clone(), self.board.pieces, now);
            return Ok(());
        }
        self.receiver.listed(self.board.pieces);
        news.has.into_iter().for_each(|piece| self.receiver.got(piece));
        news.lost.into_iter().for_each(|piece| self.receiver.lost(piece));
        Ok(())
    }

    /// Makes it whole, if all of it is here. Whether it is whole.
    async fn finish(&mut self) -> Result<bool, ReceiveError> {
        let filled = self.context.file.filled_now();
        if filled.downloaded {
            return Ok(true);
        }
        let size = self.context.file.with(|list, _, _| list.size())?;
        let all = filled.sealed && filled.held == filled.listed && filled.total == Some(size);
        if !self.context.follow || !all {
            return Ok(false);
        }
        let file = Arc::clone(&self.context.file);
        match blocking(move || file.finish()).await.map_err(ReceiveError::Broken)? {
            Ok(()) => Ok(true),
            Err(error @ FileError::SealMismatch) => {
                self.throw_away().await?;
                Err(ReceiveError::Disagree(error))
            }
            // A chunk turned out bad meanwhile.
            Err(FileError::Incomplete { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        self.links.values().for_each(|handle| handle.cancelled.cancel());
        self.sources.send_if_modified(|before| !std::mem::take(before).is_empty());
        if let Some(elsewhere) = &self.elsewhere {
            elsewhere.send_replace(Held::default());
        }
    }
}

/// Not everybody breaks ties alike.
fn seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
