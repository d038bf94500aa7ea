//! Which pieces to ask a link for: those that fewest peers have, of those that nobody was asked for.

use super::Random;
use super::link::Link;
use crate::images::{Held, Piece};

/// So many pieces are looked at for one request, from a random one on: enough for a good choice, and a choice in an
/// image of hundreds of gigabytes costs no more than in a small one.
const LOOK_AT: usize = 4096;

/// What is wanted, and how many peers have each piece.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// Pieces that are known.
    pub listed: u32,
    pub mine: Held,
    /// Known, not mine, and nobody was asked for them.
    pub open: Held,
    /// How many links have each.
    holders: Vec<u16>,
}

impl Wanted {
    pub fn new(mine: Held) -> Self {
        Self { mine, ..Self::default() }
    }

    pub fn list(&mut self, pieces: u32) {
        for index in self.listed as usize..pieces as usize {
            if !self.mine.contains(index) {
                self.open.insert(index);
            }
        }
        self.listed = self.listed.max(pieces);
    }

    pub fn is_missing(&self, piece: Piece) -> bool {
        piece.0 < self.listed && !self.mine.contains(piece.0 as usize)
    }

    pub fn count(&mut self, index: usize, more: bool) {
        if self.holders.len() <= index {
            self.holders.resize(index + 1, 0);
        }
        let count = &mut self.holders[index];
        *count = if more { count.saturating_add(1) } else { count.saturating_sub(1) };
    }

    /// Pieces that any link has.
    pub fn elsewhere(&self) -> Held {
        self.holders.iter().enumerate().filter(|(_, holders)| **holders > 0).map(|(index, _)| index).collect()
    }

    /// Open pieces that a peer has.
    pub fn useful(&self, held: &Held) -> usize {
        let open = self.open.words();
        open.iter().zip(held.words()).map(|(open, held)| (open & held).count_ones() as usize).sum()
    }

    /// Up to `most` open pieces of a peer, the rarest first.
    pub fn rarest(&self, held: &Held, most: usize, random: &mut Random) -> Vec<Piece> {
        let (open, theirs) = (self.open.words(), held.words());
        let words = open.len().min(theirs.len());
        let mut best: Vec<(u16, u16, u32)> = Vec::with_capacity(most + 1);
        let start = random.below(words);
        let mut salt = random.number();
        let mut looked_at = 0;
        for step in 0..words {
            let word = (start + step) % words;
            let mut bits = open[word] & theirs[word];
            while bits != 0 {
                let index = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                looked_at += 1;
                let holders = self.holders.get(index).copied().unwrap_or(0);
                if best.len() == most && best.last().is_some_and(|(most_held, ..)| holders > *most_held) {
                    continue;
                }
                // Ties are broken by chance: xorshift, for it is asked a thousand times for each choice.
                salt ^= salt << 13;
                salt ^= salt >> 7;
                salt ^= salt << 17;
                let entry = (holders, (salt >> 48) as u16, u32::try_from(index).unwrap_or(u32::MAX));
                let at = best.partition_point(|other| *other < entry);
                if at < most {
                    best.insert(at, entry);
                    best.truncate(most);
                }
            }
            if looked_at >= LOOK_AT && !best.is_empty() {
                break;
            }
        }
        best.into_iter().map(|(_, _, index)| Piece(index)).collect()
    }

    /// From now on somebody was asked for it.
    pub fn close(&mut self, piece: Piece, links: &mut [Link]) {
        let index = piece.0 as usize;
        if self.open.remove(index) {
            for link in links.iter_mut().filter(|link| link.held.contains(index)) {
                link.useful -= 1;
            }
        }
    }

    /// Nobody was asked for it any more.
    pub fn reopen(&mut self, piece: Piece, links: &mut [Link]) {
        let index = piece.0 as usize;
        if self.is_missing(piece) && self.open.insert(index) {
            for link in links.iter_mut().filter(|link| link.held.contains(index)) {
                link.useful += 1;
            }
        }
    }
}
