//! A sender's side of one image: whose turn it is, and which of the pieces asked for is given.

use super::{LinkId, Moment, Rules};
use crate::images::Piece;

/// What a link is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Served(LinkId),
    Waits(LinkId),
}

#[derive(Debug, Clone)]
struct Place {
    link: LinkId,
    wants: bool,
    /// How many others serve it, as it says.
    served_by: u8,
    /// Since when it has been waiting, or served.
    since: Moment,
    served: bool,
    /// Pieces given in this turn.
    given: u32,
}

/// The links that want an image, and what they were given.
#[derive(Debug, Clone)]
pub struct Turns {
    rules: Rules,
    places: Vec<Place>,
    /// How often each piece was given.
    given: Vec<u16>,
    /// None is served for now: the image is about to be handed over.
    paused: bool,
}

impl Turns {
    pub fn new(rules: Rules) -> Self {
        Self { rules, places: Vec::new(), given: Vec::new(), paused: false }
    }

    pub fn join(&mut self, link: LinkId, now: Moment) {
        self.places.push(Place { link, wants: false, served_by: 0, since: now, served: false, given: 0 });
    }

    pub fn leave(&mut self, link: LinkId) {
        self.places.retain(|place| place.link != link);
    }

    /// What the receiver at the other end says of itself. The hungrier is served first: that is what keeps everybody's
    /// link busy, and not some too much and others not at all.
    pub fn wants(&mut self, link: LinkId, wants: bool, served_by: u8, now: Moment) {
        if let Some(place) = self.place(link) {
            if wants && !place.wants && !place.served {
                place.since = now;
            }
            place.wants = wants;
            place.served_by = served_by;
        }
    }

    /// A piece was given, whole.
    pub fn gave(&mut self, link: LinkId) {
        if let Some(place) = self.place(link) {
            place.given += 1;
        }
    }

    /// The one of the candidates that was given least, the first of several. It counts as given.
    pub fn pick(&mut self, candidates: &[Piece]) -> Option<Piece> {
        let given = |piece: &Piece| self.given.get(piece.0 as usize).copied().unwrap_or(0);
        let piece = *candidates.iter().min_by_key(|piece| given(piece))?;
        let index = piece.0 as usize;
        if self.given.len() <= index {
            self.given.resize(index + 1, 0);
        }
        self.given[index] = self.given[index].saturating_add(1);
        Some(piece)
    }

    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Links that something is sent on, or will be as soon as they ask.
    pub fn sending(&self) -> usize {
        self.places.iter().filter(|place| place.served && place.wants).count()
    }

    pub fn is_served(&self, link: LinkId) -> bool {
        self.places.iter().any(|place| place.link == link && place.served)
    }

    pub fn links(&self) -> usize {
        self.places.len()
    }

    /// Who is served from now on, and who no longer.
    pub fn next(&mut self, now: Moment) -> Vec<Turn> {
        let mut changes = Vec::new();
        let free = self.free();
        // Without anybody who waits, everybody keeps its place.
        let mut needed = if self.paused { usize::MAX } else { self.waiting().saturating_sub(free) };
        let (turn_pieces, turn_time) = (self.rules.turn_pieces, self.rules.turn_time);
        for idle in [true, false] {
            for place in self.places.iter_mut().filter(|place| place.served && place.wants != idle) {
                let over = place.given >= turn_pieces || now.saturating_sub(place.since) >= turn_time;
                if needed > 0 && (self.paused || idle || over) {
                    needed -= 1;
                    place.served = false;
                    place.since = now;
                    changes.push(Turn::Waits(place.link));
                }
            }
        }
        let mut free = if self.paused { 0 } else { self.free() };
        while free > 0 {
            let next = self
                .places
                .iter_mut()
                .filter(|place| place.wants && !place.served)
                .min_by_key(|place| (place.served_by, place.since));
            let Some(place) = next else { break };
            place.served = true;
            place.since = now;
            place.given = 0;
            // Whoever just lost its turn and is still the one to serve never hears of it.
            match changes.iter().position(|change| *change == Turn::Waits(place.link)) {
                Some(at) => drop(changes.remove(at)),
                None => changes.push(Turn::Served(place.link)),
            }
            free -= 1;
        }
        changes
    }

    /// When a turn ends by time.
    pub fn wake(&self) -> Option<Moment> {
        (self.waiting() > 0)
            .then(|| self.places.iter().filter(|place| place.served).map(|place| place.since).min())
            .flatten()
            .map(|since| since + self.rules.turn_time)
    }

    fn free(&self) -> usize {
        self.rules.served.saturating_sub(self.places.iter().filter(|place| place.served).count())
    }

    fn waiting(&self) -> usize {
        self.places.iter().filter(|place| place.wants && !place.served).count()
    }

    fn place(&mut self, link: LinkId) -> Option<&mut Place> {
        self.places.iter_mut().find(|place| place.link == link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: [LinkId; 5] = [LinkId(0), LinkId(1), LinkId(2), LinkId(3), LinkId(4)];

    fn turns() -> Turns {
        let mut turns = Turns::new(Rules::default());
        for link in LINKS {
            turns.join(link, Moment::ZERO);
            turns.wants(link, true, 0, Moment::ZERO);
        }
        turns
    }

    fn served(turns: &Turns) -> Vec<LinkId> {
        LINKS.into_iter().filter(|link| turns.is_served(*link)).collect()
    }

    #[test]
    fn no_more_than_three_are_served_and_everybody_gets_a_turn() {
        let mut turns = turns();
        let mut seen = std::collections::BTreeSet::new();
        for round in 1..10 {
            turns.next(Moment::from_secs(round));
            assert_eq!(served(&turns).len(), 3);
            for link in served(&turns) {
                seen.insert(link);
                (0..Rules::default().turn_pieces).for_each(|_| turns.gave(link));
            }
        }
        assert_eq!(seen.len(), LINKS.len());
    }

    #[test]
    fn a_link_that_asks_for_nothing_loses_its_turn_by_time() {
        let mut turns = turns();
        turns.next(Moment::ZERO);
        let before = served(&turns);
        assert_eq!(turns.wake(), Some(Rules::default().turn_time));
        turns.next(Rules::default().turn_time);
        assert_ne!(served(&turns), before);
    }

    #[test]
    fn without_anybody_who_waits_a_turn_goes_on() {
        let mut turns = turns();
        turns.leave(LINKS[3]);
        turns.leave(LINKS[4]);
        assert_eq!(turns.next(Moment::ZERO).len(), 3);
        turns.gave(LINKS[0]);
        turns.wants(LINKS[1], false, 0, Moment::ZERO);
        assert_eq!(turns.next(Moment::from_secs(1000)), []);
        assert_eq!(turns.sending(), 2);
    }

    #[test]
    fn the_hungriest_is_served_first() {
        let mut turns = turns();
        for link in LINKS {
            turns.wants(link, true, 5 - u8::try_from(link.0).unwrap_or(0), Moment::ZERO);
        }
        turns.next(Moment::ZERO);
        assert_eq!(served(&turns), LINKS[2..]);
    }

    #[test]
    fn what_was_given_least_is_picked() {
        let mut turns = turns();
        let both = [Piece(7), Piece(2)];
        assert_eq!(turns.pick(&both), Some(Piece(7)));
        assert_eq!(turns.pick(&both), Some(Piece(2)));
        assert_eq!(turns.pick(&[Piece(2)]), Some(Piece(2)));
        assert_eq!(turns.pick(&both), Some(Piece(7)));
        assert_eq!(turns.pick(&[]), None);
    }

    #[test]
    fn nobody_is_served_while_the_image_is_on_offer() {
        let mut turns = turns();
        turns.next(Moment::ZERO);
        turns.pause(true);
        assert_eq!(turns.next(Moment::ZERO).len(), 3);
        assert_eq!(served(&turns), []);
        turns.pause(false);
        assert_eq!(turns.next(Moment::ZERO).len(), 3);
    }
}
