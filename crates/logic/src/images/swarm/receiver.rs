//! A receiver's side of one image: which links to open and close, and what to ask on each.

use super::asks::Wanted;
use super::link::{Ask, AskId, Link};
use super::peers::Peers;
use super::{LinkId, Moment, Parting, PeerId, Random, Rules};
use crate::images::{Held, Piece};

/// What the caller is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open this link. Its end is told by [`Receiver::parted`], whatever it was.
    Dial { link: LinkId, peer: PeerId },
    /// Close this link; it is forgotten already.
    HangUp { link: LinkId, why: Parting },
    /// Tell the peer whether anything of it is wanted, and how many serve us.
    Want { link: LinkId, wants: bool, served_by: u8 },
    /// Ask for one of these, whichever the peer picks.
    Ask { link: LinkId, ask: AskId, candidates: Vec<Piece> },
    /// It came from elsewhere: the peer need not send it, or the rest of it.
    Cancel { link: LinkId, piece: Piece },
}

#[derive(Debug, Clone)]
pub struct Receiver {
    rules: Rules,
    random: Random,
    wanted: Wanted,
    peers: Peers,
    links: Vec<Link>,
    next_link: u64,
    next_ask: u32,
    /// How long a piece takes from the request to its end, lately.
    usual: Option<Moment>,
    /// What one link was asked for and takes too long with.
    late: Vec<(Moment, LinkId, Piece)>,
    /// Enough links are in use.
    full: bool,
    /// When the links are looked at again.
    watch_at: Moment,
    actions: Vec<Action>,
}

impl Receiver {
    /// `held` are the pieces that are there already, `listed` the number of those that are known.
    pub fn new(rules: Rules, seed: u64, held: Held, listed: u32) -> Self {
        let mut wanted = Wanted::new(held);
        wanted.list(listed);
        Self {
            rules,
            random: Random::new(seed),
            wanted,
            peers: Peers::default(),
            links: Vec::new(),
            next_link: 0,
            next_ask: 0,
            usual: None,
            late: Vec::new(),
            full: false,
            watch_at: Moment::ZERO,
            actions: Vec::new(),
        }
    }

    /// All begins again, with another list: links are forgotten, and what is known of peers stays.
    pub fn begin_again(&mut self, held: Held, listed: u32, now: Moment) {
        for link in std::mem::take(&mut self.links) {
            self.peers.parted(link.peer, Parting::Restarted, &self.rules, &mut self.random, now);
        }
        self.wanted = Wanted::new(held);
        self.wanted.list(listed);
        self.late.clear();
        self.actions.clear();
    }

    /// Who can be asked from now on, and nobody else.
    pub fn set_peers(&mut self, peers: &[PeerId], now: Moment) {
        for link in self.peers.set(peers) {
            self.hang_up(link, Parting::Gone, now);
        }
    }

    /// The list has grown to so many pieces.
    pub fn listed(&mut self, pieces: u32) {
        let before = self.wanted.listed;
        self.wanted.list(pieces);
        for index in before as usize..pieces as usize {
            if self.wanted.open.contains(index) {
                for link in self.links.iter_mut().filter(|link| link.held.contains(index)) {
                    link.useful += 1;
                }
            }
        }
    }

    /// The peer has told what it has.
    pub fn opened(&mut self, link: LinkId, held: Held, now: Moment) {
        let useful = self.wanted.useful(&held);
        let Some(opened) = self.link(link) else { return };
        opened.open = true;
        opened.useful = useful;
        (opened.heard, opened.useful_at) = (now, now);
        opened.held = held;
        let peer = opened.peer;
        let indexes: Vec<usize> = opened.held.iter().collect();
        for index in indexes {
            self.wanted.count(index, true);
        }
        self.peers.praise(peer);
    }

    /// The peer has one more piece.
    pub fn has(&mut self, link: LinkId, piece: Piece) {
        let index = piece.0 as usize;
        let open = self.wanted.open.contains(index);
        let Some(link) = self.link(link) else { return };
        if link.held.insert(index) {
            link.useful += usize::from(open);
            self.wanted.count(index, true);
        }
    }

    /// The peer found that it does not have it any more.
    pub fn lost_by(&mut self, link: LinkId, piece: Piece) {
        let index = piece.0 as usize;
        let open = self.wanted.open.contains(index);
        let Some(found) = self.link(link) else { return };
        if found.held.remove(index) {
            found.useful -= usize::from(open);
            self.wanted.count(index, false);
        }
        self.unask(link, piece);
    }

    /// Whether the peer serves this link from now on. When it stops, it forgets what it was asked and has not begun.
    pub fn turn(&mut self, link: LinkId, served: bool, now: Moment) {
        let Some(found) = self.link(link) else { return };
        found.served = served;
        found.heard = now;
        if !served {
            let forgotten: Vec<Ask> = found.asks.extract_if(.., |ask| !ask.picked).collect();
            self.release(forgotten.into_iter().flat_map(|ask| ask.candidates));
        }
    }

    /// The peer picked this one, and sends it.
    pub fn sending(&mut self, link: LinkId, ask: AskId, piece: Piece, now: Moment) {
        let Some(found) = self.link(link) else { return };
        found.heard = now;
        // A request that is no longer there was withdrawn, and the peer will see that.
        let Some(ask) = found.asks.iter_mut().find(|other| other.id == ask && !other.picked) else { return };
        ask.picked = true;
        let others = std::mem::replace(&mut ask.candidates, vec![piece]);
        self.release(others.into_iter().filter(|other| *other != piece));
    }

    /// Bytes came on this link.
    pub fn bytes(&mut self, link: LinkId, bytes: u64, now: Moment) {
        if let Some(link) = self.link(link) {
            link.received(bytes, now);
        }
    }

    /// The peer sent the last of it, or stopped in the middle of it. Whether it is ours now, [`Self::got`] tells.
    pub fn sent(&mut self, link: LinkId, piece: Piece, now: Moment) {
        let Some(found) = self.link(link) else { return };
        found.heard = now;
        if let Some(at) = found.asks.iter().position(|ask| ask.picked && ask.candidates == [piece]) {
            let ask = found.asks.remove(at);
            // What was behind it in the queue begins only now.
            found.asks.iter_mut().for_each(|ask| ask.since = now);
            let took = now.saturating_sub(ask.since);
            self.usual = Some(self.usual.map_or(took, |usual| (usual * 7 + took) / 8));
        }
        self.release([piece]);
    }

    /// A piece is whole and verified here, wherever it came from.
    pub fn got(&mut self, piece: Piece) {
        let index = piece.0 as usize;
        if !self.wanted.mine.insert(index) {
            return;
        }
        self.wanted.close(piece, &mut self.links);
        for link in &mut self.links {
            let id = link.id;
            if link.withdraw(piece) {
                self.actions.push(Action::Cancel { link: id, piece });
            }
        }
    }

    /// A piece that was here is damaged, or was.
    pub fn lost(&mut self, piece: Piece) {
        if self.wanted.mine.remove(piece.0 as usize) {
            self.wanted.reopen(piece, &mut self.links);
        }
    }

    /// The link is closed already, by the other side or because it could not be opened.
    pub fn parted(&mut self, link: LinkId, why: Parting, now: Moment) {
        let Some(at) = self.links.iter().position(|other| other.id == link) else { return };
        let link = self.links.swap_remove(at);
        let indexes: Vec<usize> = link.held.iter().collect();
        for index in indexes {
            self.wanted.count(index, false);
        }
        self.peers.parted(link.peer, why, &self.rules, &mut self.random, now);
        self.release(link.asks.into_iter().flat_map(|ask| ask.candidates));
    }

    /// The link is to be closed.
    pub fn hang_up(&mut self, link: LinkId, why: Parting, now: Moment) {
        if self.links.iter().any(|other| other.id == link) {
            self.parted(link, why, now);
            self.actions.push(Action::HangUp { link, why });
        }
    }

    pub fn is_whole(&self) -> bool {
        self.wanted.mine.count() >= self.wanted.listed as usize
    }

    pub fn links(&self) -> usize {
        self.links.len()
    }

    pub fn peer_of(&self, link: LinkId) -> Option<PeerId> {
        self.links.iter().find(|other| other.id == link).map(|link| link.peer)
    }

    /// Pieces that can be had from peers now.
    pub fn elsewhere(&self) -> Held {
        self.wanted.elsewhere()
    }

    /// Peers that pieces come from now.
    pub fn sources(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.links.iter().filter(|link| link.used).map(|link| link.peer)
    }

    /// What to do now.
    pub fn next(&mut self, now: Moment) -> Vec<Action> {
        if now >= self.watch_at {
            self.watch_at = now + self.rules.late_after / 2;
            self.watch(now);
            self.look_for_late(now);
        }
        self.dial(now);
        self.ask(now);
        self.tell();
        std::mem::take(&mut self.actions)
    }

    /// When [`Self::next`] should be asked again, if nothing happens before.
    pub fn wake(&self, now: Moment) -> Option<Moment> {
        let busy = self.links.iter().any(|link| !link.asks.is_empty());
        let redial =
            (self.links.len() < self.rules.links).then(|| self.peers.next(self.is_in_need())).flatten();
        let soon = now + if busy { self.rules.late_after } else { self.rules.sample * 4 };
        Some(redial.map_or(soon, |redial| redial.max(now + self.rules.late_after / 4).min(soon)))
    }

    /// Frozen, slow and useless links are closed.
    fn watch(&mut self, now: Moment) {
        let mut over = Vec::new();
        let usual = self.usual_rate();
        let missing = !self.is_whole();
        for link in &mut self.links {
            link.sample(&self.rules, now);
            if link.useful > 0 || !link.asks.is_empty() {
                link.useful_at = now;
            }
            let silent = now.saturating_sub(link.heard);
            if !link.asks.is_empty() && silent >= self.rules.frozen {
                over.push((link.id, Parting::Frozen));
            } else if usual
                .zip(link.rate())
                .is_some_and(|(usual, rate)| rate * f64::from(self.rules.slow) < usual)
            {
                over.push((link.id, Parting::Slow));
            } else if missing && now.saturating_sub(link.useful_at) >= self.rules.useless {
                over.push((link.id, Parting::Useless));
            }
        }
        for (link, why) in over {
            // Somebody must be there to take the place of one who only has nothing to give now.
            if why != Parting::Useless || self.peers.next(false).is_some_and(|at| at <= now) {
                self.hang_up(link, why, now);
            }
        }
    }

    /// The median of the rates that are known, of at least three.
    fn usual_rate(&self) -> Option<f64> {
        let mut rates: Vec<f64> = self.links.iter().filter_map(Link::rate).collect();
        rates.sort_by(f64::total_cmp);
        (rates.len() >= 3).then(|| rates[rates.len() / 2])
    }

    /// Something is missing, and no link has it, or may turn out to have it.
    fn is_in_need(&self) -> bool {
        let helps = |link: &Link| !link.open || link.useful > 0 || !link.asks.is_empty();
        !self.is_whole() && !self.links.iter().any(helps)
    }

    fn dial(&mut self, now: Moment) {
        let dialling = self.links.iter().filter(|link| !link.open).count();
        let most = self
            .rules
            .links
            .saturating_sub(self.links.len())
            .min(self.rules.dialling.saturating_sub(dialling));
        let in_need = self.is_in_need();
        for _ in 0..most {
            let Some(peer) = self.peers.pick(&mut self.random, now, in_need) else { break };
            let link = LinkId(self.next_link);
            self.next_link += 1;
            self.peers.linked(peer, link);
            self.links.push(Link::new(link, peer, now));
            self.actions.push(Action::Dial { link, peer });
        }
    }

    /// Which of the links that serve us are made use of: those that are already, then others, as many as is enough.
    fn choose(&mut self) {
        let whole = self.links.iter().filter(|link| link.held.count() >= self.wanted.listed as usize).count();
        let open = self.links.iter().filter(|link| link.open).count();
        // Among peers that want nothing themselves there is no such thing as too many.
        let mut left = if whole * 4 >= open * 3 { self.rules.links } else { self.rules.enough };
        for used in [true, false] {
            for link in self.links.iter_mut().filter(|link| link.used == used) {
                link.used = left > 0 && link.served && (!link.asks.is_empty() || link.useful > 0);
                left -= usize::from(link.used);
            }
        }
        self.full = left == 0;
    }

    fn ask(&mut self, now: Moment) {
        self.choose();
        for at in 0..self.links.len() {
            while self.may_ask(at) {
                let candidates = self.candidates(at);
                if candidates.is_empty() {
                    break;
                }
                for piece in &candidates {
                    self.wanted.close(*piece, &mut self.links);
                }
                let link = &mut self.links[at];
                if link.asks.is_empty() {
                    link.heard = now;
                }
                let id = AskId(self.next_ask);
                self.next_ask = self.next_ask.wrapping_add(1);
                link.asks.push(Ask { id, candidates: candidates.clone(), picked: false, since: now });
                self.actions.push(Action::Ask { link: link.id, ask: id, candidates });
            }
        }
    }

    fn may_ask(&self, at: usize) -> bool {
        let link = &self.links[at];
        let idle_with_late = || link.asks.is_empty() && !self.late.is_empty();
        link.served && (link.used || idle_with_late()) && link.asks.len() < link.depth(&self.rules)
    }

    fn candidates(&mut self, at: usize) -> Vec<Piece> {
        let link = &self.links[at];
        if link.useful > 0 {
            // Towards the end there are fewer to choose from: what one link may pick, another can not.
            let most = (link.useful / 8).clamp(1, self.rules.candidates);
            return self.wanted.rarest(&link.held, most, &mut self.random);
        }
        if !link.asks.is_empty() {
            return Vec::new();
        }
        // With nothing else to do, it may try what takes another link too long.
        let late = self.late.iter().position(|(_, slow, piece)| link.could_help(*slow, *piece));
        let late = late.map(|at| self.late.remove(at).2);
        late.filter(|piece| self.wanted.is_missing(*piece)).into_iter().collect()
    }

    fn look_for_late(&mut self, now: Moment) {
        self.late.clear();
        let Some(usual) = self.usual else { return };
        let late_after = (usual * self.rules.late).max(self.rules.late_after);
        let mut late = Vec::new();
        for link in &self.links {
            for ask in link.asks.iter().filter(|ask| now.saturating_sub(ask.since) >= late_after) {
                late.extend(ask.candidates.iter().map(|piece| (ask.since, link.id, *piece)));
            }
        }
        late.retain(|(_, _, piece)| self.asked_of(*piece) == 1);
        late.sort();
        self.late = late;
    }

    fn asked_of(&self, piece: Piece) -> usize {
        let asks = self.links.iter().flat_map(|link| &link.asks);
        asks.filter(|ask| ask.candidates.contains(&piece)).count()
    }

    /// Peers hear whether they can be of use, and how hungry we are, when it changes.
    fn tell(&mut self) {
        let used = self.links.iter().filter(|link| link.used).count();
        let used = u8::try_from(used).unwrap_or(u8::MAX);
        for link in self.links.iter_mut().filter(|link| link.open) {
            let late = || self.late.iter().any(|(_, slow, piece)| link.could_help(*slow, *piece));
            let wants = !link.asks.is_empty() || (link.useful > 0 && (link.used || !self.full)) || late();
            let told = (wants, if wants { used - u8::from(link.used) } else { 0 });
            if link.told != Some(told) {
                link.told = Some(told);
                self.actions.push(Action::Want { link: link.id, wants, served_by: told.1 });
            }
        }
    }

    fn unask(&mut self, link: LinkId, piece: Piece) {
        if self.link(link).is_some_and(|found| found.withdraw(piece)) {
            self.release([piece]);
        }
    }

    /// Pieces that one request less is for: open again, unless another one is.
    fn release(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        for piece in pieces {
            if self.asked_of(piece) == 0 {
                self.wanted.reopen(piece, &mut self.links);
            }
        }
    }

    fn link(&mut self, link: LinkId) -> Option<&mut Link> {
        self.links.iter_mut().find(|other| other.id == link)
    }
}
