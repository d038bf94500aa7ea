//! One image that is sent: its links, whose turn it is, and what they are told.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logic::images::Piece;
use logic::images::swarm::{AskId, LinkId, Turn, Turns};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::frame::Candidate;
use super::limits::Limits;
use crate::file::{FileError, ImageFile};

/// Between two looks at the file: what comes in between is told at once.
const GATHER: Duration = Duration::from_millis(2);
/// News that are kept for links that are behind; if there are more, they begin again.
const MOST_NEWS: usize = 1 << 20;

#[derive(Debug)]
pub struct Share {
    pub file: Arc<ImageFile>,
    pub cancelled: CancellationToken,
    turns: Mutex<Links>,
    news: Mutex<News>,
    changed: watch::Sender<u64>,
    start: Instant,
}

#[derive(Debug)]
struct Links {
    turns: Turns,
    links: HashMap<LinkId, Arc<Link>>,
    next: u64,
}

/// What all links are told, in order.
#[derive(Debug)]
pub struct News {
    pub board: Board,
    pub pieces: Vec<(Piece, bool)>,
}

/// What is asked for on one link.
#[derive(Debug)]
pub struct Link {
    pub id: LinkId,
    state: Mutex<LinkState>,
    pub woken: Notify,
}

#[derive(Debug)]
pub struct LinkState {
    pub turn: u32,
    pub served: bool,
    /// Since when it has not been served.
    pub waits_since: Instant,
    pub asks: VecDeque<(AskId, Vec<Candidate>)>,
    pub cancelled: Vec<Piece>,
}

impl Link {
    pub fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    pub fn new(
        file: &Arc<ImageFile>,
        limits: &Limits,
        cancelled: CancellationToken,
    ) -> Result<Arc<Self>, FileError> {
        let board = Board::new(file)?;
        let share = Arc::new(Self {
            file: Arc::clone(file),
            cancelled,
            turns: Mutex::new(Links {
                turns: Turns::new(limits.rules.clone()),
                links: HashMap::new(),
                next: 0,
            }),
            news: Mutex::new(News { board, pieces: Vec::new() }),
            changed: watch::channel(0).0,
            start: Instant::now(),
        });
        tokio::spawn(announce(Arc::downgrade(&share), file.filled(), share.cancelled.clone()));
        Ok(share)
    }

    /// Takes a link on, unless there are too many.
    pub fn join(&self, most: usize) -> Option<Arc<Link>> {
        let mut links = self.links();
        if links.links.len() >= most {
            return None;
        }
        let id = LinkId(links.next);
        links.next += 1;
        let state = LinkState {
            turn: 0,
            served: false,
            waits_since: self.start,
            asks: VecDeque::new(),
            cancelled: Vec::new(),
        };
        let link = Arc::new(Link { id, state: Mutex::new(state), woken: Notify::new() });
        links.turns.join(id, self.start.elapsed());
        links.links.insert(id, Arc::clone(&link));
        Some(link)
    }

    /// Whether it was the last one.
    pub fn leave(&self, link: LinkId) -> bool {
        let mut links = self.links();
        links.turns.leave(link);
        links.links.remove(&link);
        let last = links.links.is_empty();
        drop(links);
        self.settle();
        last
    }

    pub fn links_now(&self) -> usize {
        self.links().links.len()
    }

    /// Links that something is sent on.
    pub fn sending(&self) -> usize {
        self.links().turns.sending()
    }

    pub fn pause(&self, paused: bool) {
        self.links().turns.pause(paused);
        self.settle();
    }

    pub fn wants(&self, link: LinkId, wants: bool, served_by: u8) {
        self.links().turns.wants(link, wants, served_by, self.start.elapsed());
        self.settle();
    }

    pub fn gave(&self, link: LinkId) {
        self.links().turns.gave(link);
        self.settle();
    }

    /// Which of the candidates to send.
    pub fn pick(&self, candidates: &[Candidate]) -> Option<Candidate> {
        let pieces: Vec<Piece> = {
            let news = self.news();
            candidates
                .iter()
                .map(|candidate| candidate.piece)
                .filter(|piece| news.board.held.contains(piece.0 as usize))
                .collect()
        };
        let picked = self.links().turns.pick(&pieces)?;
        candidates.iter().find(|candidate| candidate.piece == picked).copied()
    }

    /// Gives turns to whom they belong now.
    pub fn settle(&self) {
        let mut links = self.links();
        for turn in links.turns.next(self.start.elapsed()) {
            let (id, served) = match turn {
                Turn::Served(id) => (id, true),
                Turn::Waits(id) => (id, false),
            };
            if let Some(link) = links.links.get(&id) {
                let mut state = link.lock();
                state.served = served;
                state.asks.clear();
                if served {
                    state.turn = state.turn.wrapping_add(1);
                } else {
                    state.waits_since = Instant::now();
                }
                drop(state);
                link.woken.notify_one();
            }
        }
    }

    pub fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Looks at the file, and notes what is new.
    pub fn look(&self) -> Result<(), FileError> {
        let mut news = self.news();
        let new = news.board.look()?;
        if new.restarted || news.pieces.len() > MOST_NEWS {
            self.cancelled.cancel();
        }
        news.pieces.extend(new.has.into_iter().map(|piece| (piece, true)));
        news.pieces.extend(new.lost.into_iter().map(|piece| (piece, false)));
        drop(news);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the links of an image what is new, until nobody has the image any more.
async fn announce(
    share: std::sync::Weak<Share>,
    mut filled: watch::Receiver<crate::file::Filled>,
    cancelled: CancellationToken,
) {
    loop {
        let changed = tokio::select! {
            () = cancelled.cancelled() => return,
            changed = tokio::time::timeout(Duration::from_millis(500), filled.changed()) => changed,
        };
        let Some(share) = share.upgrade() else { return };
        match changed {
            // Turns also end by time.
            Err(_) => share.settle(),
            Ok(Err(_)) => return share.cancelled.cancel(),
            Ok(Ok(())) => {
                let looking = Arc::clone(&share);
                let looked = tokio::task::spawn_blocking(move || looking.look()).await;
                if !matches!(looked, Ok(Ok(()))) {
                    tracing::warn!(image = %share.file.name(), "what an image has can't be told: {looked:?}");
                    return share.cancelled.cancel();
                }
                drop(share);
                tokio::time::sleep(GATHER).await;
            }
        }
    }
}
