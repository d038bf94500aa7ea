//! One link of a receiver, as far as decisions need it: what its peer has, whether it serves us, what was asked for.

use std::time::Duration;

use super::{Moment, Rules};
use crate::images::{ChunkList, Held, Piece};

/// A peer, by the number that the caller gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// A link; no two of a receiver, or of a sender, have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// A request; no two under way on a link have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u32);

/// One request: one of the candidates comes, whichever the sender picks.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub id: AskId,
    pub candidates: Vec<Piece>,
    pub picked: bool,
    pub since: Moment,
}

#[derive(Debug, Clone)]
pub(super) struct Link {
    pub id: LinkId,
    pub peer: PeerId,
    /// Its peer has told what it has.
    pub open: bool,
    pub held: Held,
    /// Pieces that it has and that nobody was asked for yet.
    pub useful: usize,
    pub served: bool,
    /// It serves us, and it is one of those that we make use of.
    pub used: bool,
    pub asks: Vec<Ask>,
    /// What the peer was last told: whether we want anything, and how many serve us.
    pub told: Option<(bool, u8)>,
    /// When it was last heard of, or asked for something after a pause.
    pub heard: Moment,
    /// When it last had something to give.
    pub useful_at: Moment,
    rate: Rate,
}

impl Link {
    pub fn new(id: LinkId, peer: PeerId, now: Moment) -> Self {
        Self {
            id,
            peer,
            open: false,
            held: Held::default(),
            useful: 0,
            served: false,
            used: false,
            asks: Vec::new(),
            told: None,
            heard: now,
            useful_at: now,
            rate: Rate::default(),
        }
    }

    /// How many requests should be under way.
    pub fn depth(&self, rules: &Rules) -> usize {
        const PIECE: f64 = ChunkList::AVERAGE_CHUNK as f64 * ChunkList::CHUNKS_PER_PIECE as f64;
        let ahead = self.rate.per_second.unwrap_or(0.0) * rules.ahead.as_secs_f64() / PIECE;
        // Few enough to be exact; the cast saturates.
        (ahead.ceil() as usize).clamp(rules.requests.0, rules.requests.1)
    }

    /// Takes a piece out of all requests; whether it was in one.
    pub fn withdraw(&mut self, piece: Piece) -> bool {
        let mut there = false;
        for ask in &mut self.asks {
            if let Some(at) = ask.candidates.iter().position(|other| *other == piece) {
                ask.candidates.remove(at);
                there = true;
            }
        }
        self.asks.retain(|ask| !ask.candidates.is_empty());
        there
    }

    /// Whether it has a piece that another link takes too long with.
    pub fn could_help(&self, slow: LinkId, piece: Piece) -> bool {
        self.id != slow && self.held.contains(piece.0 as usize)
    }

    pub fn received(&mut self, bytes: u64, now: Moment) {
        self.heard = now;
        self.rate.bytes += bytes;
    }

    /// Takes a sample if it is time; only the time in which something was asked for counts.
    pub fn sample(&mut self, rules: &Rules, now: Moment) {
        let busy = !self.asks.is_empty();
        self.rate.sample(busy, rules.sample, now);
    }

    /// Bytes a second while it was busy, once it is known well enough to be compared.
    pub fn rate(&self) -> Option<f64> {
        self.rate.per_second.filter(|_| self.rate.samples >= 4)
    }
}

#[derive(Debug, Clone, Default)]
struct Rate {
    per_second: Option<f64>,
    samples: u32,
    bytes: u64,
    since: Option<Moment>,
}

impl Rate {
    fn sample(&mut self, busy: bool, every: Duration, now: Moment) {
        match self.since {
            None if busy => {
                self.since = Some(now);
                self.bytes = 0;
            }
            Some(since) if now.saturating_sub(since) >= every => {
                let seconds = now.saturating_sub(since).as_secs_f64();
                let latest = self.bytes as f64 / seconds;
                self.per_second = Some(self.per_second.map_or(latest, |rate| rate * 0.7 + latest * 0.3));
                self.samples = self.samples.saturating_add(1);
                self.bytes = 0;
                self.since = busy.then_some(now);
            }
            // Idle before the sample was over: it says nothing about the link.
            Some(_) if !busy => self.since = None,
            _ => {}
        }
    }
}
