//! A site of many managers in one process: links with a rate each way, messages that take a tick, and the shipped
//! decisions in each of them. Data flows like water: all that pass a manager's link share it evenly.

use std::collections::VecDeque;
use std::time::Duration;

use logic::images::swarm::{
    Action, AskId, LinkId, Moment, Parting, PeerId, Random, Receiver, Rules, Turn, Turns,
};
use logic::images::{Held, Piece};

/// A piece takes this many ticks at the speed of an ordinary link; a message takes one.
pub const TICKS_PER_PIECE: u64 = 4;
/// A megabyte takes 84 ms at 100 Mbit/s.
const TICK: Duration = Duration::from_micros(84_000 / TICKS_PER_PIECE);
const PIECE_BYTES: f64 = 1_048_576.0;
/// As in the settings of managers.
const CONNECTIONS: usize = 64;

#[derive(Clone)]
pub struct Plan {
    pub peers: usize,
    pub pieces: u32,
    pub seed: u64,
    pub rules: Rules,
    /// How fast the origin gives pieces to the first, compared with a link; all at once, if not given.
    pub origin: Option<f64>,
    /// Of a peer, by its number: how fast it sends and receives, compared with the others.
    pub speed: fn(usize) -> (f64, f64),
    /// Part of the peers that die half-way, in percent; half of them come back.
    pub die: usize,
    /// Links that are cut each second, in a thousand.
    pub cut: usize,
    /// Part of the peers that send bad chunks, in percent, each time.
    pub bad: usize,
    /// Part of the peers that freeze half-way, in percent.
    pub freeze: usize,
}

pub struct Outcome {
    /// Until the last had all, in transfers of the image at the speed of a link.
    pub transfers: f64,
    /// The same for the one in the middle.
    pub median: f64,
    /// Pieces that the first sent, compared with those there are.
    pub first_sent: f64,
    /// All that was sent, compared with what had to be.
    pub sent: f64,
}

struct Manager {
    up: f64,
    down: f64,
    receiver: Receiver,
    turns: Turns,
    held: Held,
    alive: bool,
    frozen: bool,
    bad: bool,
    done: Option<u64>,
    /// Links on which it sends, and those on which it receives.
    outgoing: Vec<usize>,
    incoming: Vec<usize>,
    sent: u64,
    wake: Moment,
    touched: bool,
    turns_touched: bool,
    turns_wake: Moment,
}

impl Manager {
    /// Those that are slow by nature take as long as they take.
    fn is_awaited(&self) -> bool {
        self.alive && !self.frozen && self.done.is_none() && self.down * TICKS_PER_PIECE as f64 >= 1.0
    }
}

struct Link {
    holder: usize,
    receiver: usize,
    /// As the receiver calls it; the holder calls it by its number.
    id: LinkId,
    open: bool,
    queue: VecDeque<(AskId, Vec<Piece>)>,
    current: Option<(Piece, f64)>,
    /// Of this tick.
    rate: f64,
}

enum Message {
    Hello(usize),
    Opened(usize, Held),
    Refused(usize, Parting),
    Closed(usize),
    Has(usize, Piece),
    Turn(usize, bool),
    Sending(usize, AskId, Piece),
    Want(usize, bool, u8),
    Ask(usize, AskId, Vec<Piece>),
    Cancel(usize, Piece),
}

pub struct Site {
    plan: Plan,
    random: Random,
    tick: u64,
    managers: Vec<Manager>,
    links: Vec<Link>,
    messages: Vec<Message>,
    listed: u32,
}

impl Site {
    pub fn new(plan: Plan) -> Self {
        let listed = if plan.origin.is_some() { 0 } else { plan.pieces };
        let everybody: Vec<PeerId> = (0..=plan.peers).map(|peer| PeerId(peer as u32)).collect();
        let mut random = Random::new(plan.seed);
        let managers = (0..=plan.peers).map(|number| {
            let held = if number == 0 { Held::all(listed as usize) } else { Held::default() };
            let mut receiver = Receiver::new(plan.rules.clone(), random.number(), held.clone(), listed);
            let others: Vec<PeerId> =
                everybody.iter().copied().filter(|peer| number != 0 && peer.0 as usize != number).collect();
            receiver.set_peers(&others, Moment::ZERO);
            let (up, down) = (plan.speed)(number);
            Manager {
                up: up / TICKS_PER_PIECE as f64,
                down: down / TICKS_PER_PIECE as f64,
                receiver,
                turns: Turns::new(plan.rules.clone()),
                held,
                alive: true,
                frozen: false,
                bad: number > 0 && random.below(100) < plan.bad,
                done: (number == 0).then_some(0),
                outgoing: Vec::new(),
                incoming: Vec::new(),
                sent: 0,
                wake: Moment::ZERO,
                touched: true,
                turns_touched: false,
                turns_wake: Moment::MAX,
            }
        });
        let managers = managers.collect();
        Self { plan, random, tick: 0, managers, links: Vec::new(), messages: Vec::new(), listed }
    }

    pub fn run(mut self) -> Outcome {
        let one = u64::from(self.plan.pieces) * TICKS_PER_PIECE;
        while self.managers.iter().any(Manager::is_awaited) {
            self.step();
            assert!(self.tick < one * 40, "not done after 40 transfers");
        }
        let ordinary = |manager: &&Manager| manager.down * TICKS_PER_PIECE as f64 >= 1.0;
        let mut done: Vec<u64> =
            self.managers[1..].iter().filter(ordinary).filter_map(|manager| manager.done).collect();
        done.sort_unstable();
        let sent: u64 = self.managers.iter().map(|manager| manager.sent).sum();
        let needed: usize = self.managers[1..].iter().map(|manager| manager.held.count()).sum();
        Outcome {
            transfers: done[done.len() - 1] as f64 / one as f64,
            median: done[done.len() / 2] as f64 / one as f64,
            first_sent: self.managers[0].sent as f64 / f64::from(self.plan.pieces),
            sent: sent as f64 / needed as f64,
        }
    }

    fn now(&self) -> Moment {
        TICK * u32::try_from(self.tick).unwrap()
    }

    fn step(&mut self) {
        self.tick += 1;
        self.grow();
        self.misfortune();
        for message in std::mem::take(&mut self.messages) {
            self.deliver(message);
        }
        let now = self.now();
        for number in 0..self.managers.len() {
            let manager = &mut self.managers[number];
            if !manager.alive || manager.frozen {
                continue;
            }
            if manager.turns_touched || manager.turns_wake <= now {
                self.take_turns(number);
            }
            let manager = &mut self.managers[number];
            if manager.done.is_none() && (manager.touched || manager.wake <= now) {
                manager.touched = false;
                let actions = manager.receiver.next(now);
                manager.wake = manager.receiver.wake(now).unwrap_or(Moment::MAX);
                for action in actions {
                    self.act(number, action);
                }
            }
        }
        self.flow();
    }

    fn grow(&mut self) {
        let Some(speed) = self.plan.origin else { return };
        let there = (self.tick as f64 / TICKS_PER_PIECE as f64 * speed) as u32;
        let there = there.min(self.plan.pieces);
        for piece in self.listed..there {
            // The list goes round by itself: it is small.
            for manager in &mut self.managers {
                manager.receiver.listed(piece + 1);
            }
            self.hold(0, Piece(piece));
        }
        self.listed = there;
    }

    fn misfortune(&mut self) {
        let half = u64::from(self.plan.pieces) * TICKS_PER_PIECE / 2;
        for number in 1..self.managers.len() {
            if self.tick == half && self.random.below(100) < self.plan.die {
                self.kill(number);
            } else if self.tick == half && self.random.below(100) < self.plan.freeze {
                self.managers[number].frozen = true;
            } else if self.tick == half + half / 4 && !self.managers[number].alive && number % 2 == 0 {
                self.revive(number);
            }
        }
        if self.plan.cut > 0 && self.tick.is_multiple_of(1000 / TICK.as_millis() as u64) {
            for link in 0..self.links.len() {
                if self.links[link].open && self.random.below(1000) < self.plan.cut {
                    self.unlink(link);
                }
            }
        }
    }

    fn kill(&mut self, number: usize) {
        self.managers[number].alive = false;
        let links: Vec<usize> =
            self.managers[number].outgoing.iter().chain(&self.managers[number].incoming).copied().collect();
        for link in links {
            self.unlink(link);
        }
    }

    /// It comes back with what it had.
    fn revive(&mut self, number: usize) {
        let (now, seed) = (self.now(), self.random.number());
        let manager = &mut self.managers[number];
        manager.alive = true;
        manager.turns = Turns::new(self.plan.rules.clone());
        manager.receiver = Receiver::new(self.plan.rules.clone(), seed, manager.held.clone(), self.listed);
        let others: Vec<PeerId> =
            (0..=self.plan.peers).filter(|other| *other != number).map(|peer| PeerId(peer as u32)).collect();
        manager.receiver.set_peers(&others, now);
        manager.touched = true;
    }

    /// Both ends notice at once.
    fn unlink(&mut self, link: usize) {
        let now = self.now();
        let (holder, receiver, id) =
            (self.links[link].holder, self.links[link].receiver, self.links[link].id);
        self.managers[receiver].receiver.parted(id, Parting::Broken, now);
        self.managers[receiver].touched = true;
        self.forget(link);
        self.managers[holder].turns_touched = true;
    }

    fn forget(&mut self, link: usize) {
        let (holder, receiver) = (self.links[link].holder, self.links[link].receiver);
        self.managers[holder].turns.leave(LinkId(link as u64));
        self.managers[holder].turns_touched = true;
        self.managers[holder].outgoing.retain(|other| *other != link);
        self.managers[receiver].incoming.retain(|other| *other != link);
        if std::mem::replace(&mut self.links[link].open, false) {
            self.links[link].queue.clear();
            self.links[link].current = None;
        }
    }

    fn deliver(&mut self, message: Message) {
        let now = self.now();
        match message {
            Message::Hello(link) => {
                let holder = &mut self.managers[self.links[link].holder];
                if !self.links[link].open {
                } else if !holder.alive {
                    self.messages.push(Message::Refused(link, Parting::Broken));
                } else if holder.turns.links() >= CONNECTIONS {
                    self.messages.push(Message::Refused(link, Parting::Refused));
                } else if holder.frozen {
                } else {
                    holder.turns.join(LinkId(link as u64), now);
                    holder.outgoing.push(link);
                    self.messages.push(Message::Opened(link, holder.held.clone()));
                }
            }
            Message::Opened(link, held) => self.tell(link, |receiver, id| receiver.opened(id, held, now)),
            Message::Refused(link, why) => {
                self.tell(link, |receiver, id| receiver.parted(id, why, now));
                self.forget(link);
            }
            Message::Closed(link) => self.forget(link),
            Message::Has(link, piece) => self.tell(link, |receiver, id| receiver.has(id, piece)),
            Message::Turn(link, served) => self.tell(link, |receiver, id| receiver.turn(id, served, now)),
            Message::Sending(link, ask, piece) => {
                self.tell(link, |receiver, id| receiver.sending(id, ask, piece, now));
            }
            Message::Want(link, wants, served_by) => {
                let holder = &mut self.managers[self.links[link].holder];
                holder.turns.wants(LinkId(link as u64), wants, served_by, now);
                holder.turns_touched = true;
            }
            Message::Ask(link, ask, candidates) => {
                let holder = &self.managers[self.links[link].holder];
                if self.links[link].open && holder.turns.is_served(LinkId(link as u64)) {
                    self.links[link].queue.push_back((ask, candidates));
                    self.begin(link);
                }
            }
            Message::Cancel(link, piece) => {
                let cancelled = &mut self.links[link];
                for (_, candidates) in &mut cancelled.queue {
                    candidates.retain(|other| *other != piece);
                }
                cancelled.queue.retain(|(_, candidates)| !candidates.is_empty());
                cancelled.current.take_if(|(current, _)| *current == piece);
                self.begin(link);
            }
        }
    }

    fn tell(&mut self, link: usize, event: impl FnOnce(&mut Receiver, LinkId)) {
        let Link { receiver, id, open: true, .. } = self.links[link] else { return };
        let manager = &mut self.managers[receiver];
        event(&mut manager.receiver, id);
        manager.touched = true;
    }

    fn act(&mut self, number: usize, action: Action) {
        let known = |links: &[Link], incoming: &[usize], id| {
            incoming.iter().copied().find(|link| links[*link].id == id).expect("a known link")
        };
        let incoming = &self.managers[number].incoming;
        match action {
            Action::Dial { link, peer } => {
                let new = Link {
                    holder: peer.0 as usize,
                    receiver: number,
                    id: link,
                    open: true,
                    queue: VecDeque::new(),
                    current: None,
                    rate: 0.0,
                };
                self.links.push(new);
                self.managers[number].incoming.push(self.links.len() - 1);
                self.messages.push(Message::Hello(self.links.len() - 1));
            }
            Action::HangUp { link, .. } => {
                let link = known(&self.links, incoming, link);
                self.links[link].open = false;
                self.messages.push(Message::Closed(link));
            }
            Action::Want { link, wants, served_by } => {
                let link = known(&self.links, incoming, link);
                self.messages.push(Message::Want(link, wants, served_by));
            }
            Action::Ask { link, ask, candidates } => {
                let link = known(&self.links, incoming, link);
                self.messages.push(Message::Ask(link, ask, candidates));
            }
            Action::Cancel { link, piece } => {
                let link = known(&self.links, incoming, link);
                self.messages.push(Message::Cancel(link, piece));
            }
        }
    }

    fn take_turns(&mut self, number: usize) {
        let now = self.now();
        let manager = &mut self.managers[number];
        manager.turns_touched = false;
        let turns = manager.turns.next(now);
        manager.turns_wake = manager.turns.wake().unwrap_or(Moment::MAX);
        for turn in turns {
            match turn {
                Turn::Served(link) => self.messages.push(Message::Turn(link.0 as usize, true)),
                Turn::Waits(link) => {
                    self.links[link.0 as usize].queue.clear();
                    self.messages.push(Message::Turn(link.0 as usize, false));
                }
            }
        }
    }

    /// Begins with the next piece of a link, if it is between two.
    fn begin(&mut self, link: usize) {
        let holder = self.links[link].holder;
        if self.links[link].current.is_some() || !self.managers[holder].turns.is_served(LinkId(link as u64)) {
            return;
        }
        if let Some((ask, candidates)) = self.links[link].queue.pop_front() {
            let piece = self.managers[holder].turns.pick(&candidates).expect("a candidate");
            self.links[link].current = Some((piece, 1.0));
            self.messages.push(Message::Sending(link, ask, piece));
        }
    }

    fn hold(&mut self, number: usize, piece: Piece) {
        let manager = &mut self.managers[number];
        if manager.held.insert(piece.0 as usize) {
            for link in &manager.outgoing {
                self.messages.push(Message::Has(*link, piece));
            }
        }
    }

    /// One tick of data, shared out evenly, in a few rounds.
    fn flow(&mut self) {
        let mut active: Vec<usize> = Vec::new();
        for number in 0..self.managers.len() {
            if self.managers[number].alive && !self.managers[number].frozen {
                let sending = |link: &&usize| self.links[**link].current.is_some();
                active.extend(self.managers[number].outgoing.iter().filter(sending));
            }
        }
        active.retain(|link| {
            self.managers[self.links[*link].receiver].alive
                && !self.managers[self.links[*link].receiver].frozen
        });
        let mut up: Vec<(f64, u32)> = self.managers.iter().map(|manager| (manager.up, 0)).collect();
        let mut down: Vec<(f64, u32)> = self.managers.iter().map(|manager| (manager.down, 0)).collect();
        for link in &active {
            self.links[*link].rate = 0.0;
        }
        let mut growing = active.clone();
        for _ in 0..4 {
            up.iter_mut().chain(&mut down).for_each(|(_, flows)| *flows = 0);
            for link in &growing {
                up[self.links[*link].holder].1 += 1;
                down[self.links[*link].receiver].1 += 1;
            }
            let (before_up, before_down) = (up.clone(), down.clone());
            for link in &growing {
                let Link { holder, receiver, .. } = self.links[*link];
                let share = |(left, flows): (f64, u32)| left / f64::from(flows);
                let more = share(before_up[holder]).min(share(before_down[receiver]));
                self.links[*link].rate += more;
                up[holder].0 -= more;
                down[receiver].0 -= more;
            }
            growing.retain(|link| {
                let Link { holder, receiver, .. } = self.links[*link];
                up[holder].0 > 1e-6 && down[receiver].0 > 1e-6
            });
        }
        for link in active {
            self.advance(link);
        }
    }

    fn advance(&mut self, link: usize) {
        let now = self.now();
        let Link { holder, receiver, id, rate, .. } = self.links[link];
        let Some((piece, left)) = &mut self.links[link].current else { return };
        *left -= rate;
        let (piece, whole) = (*piece, *left <= 1e-9);
        self.managers[receiver].receiver.bytes(id, (rate * PIECE_BYTES) as u64, now);
        if !whole {
            return;
        }
        self.links[link].current = None;
        let bad = self.managers[holder].bad && self.random.below(4) == 0;
        self.managers[holder].sent += 1;
        self.managers[holder].turns.gave(LinkId(link as u64));
        self.managers[receiver].touched = true;
        self.managers[receiver].receiver.sent(id, piece, now);
        if bad {
            self.managers[receiver].receiver.hang_up(id, Parting::Bad, now);
        } else {
            self.managers[receiver].receiver.got(piece);
            self.hold(receiver, piece);
            if self.managers[receiver].held.count() == self.plan.pieces as usize {
                self.managers[receiver].done.get_or_insert(self.tick);
                // With all of it, it asks for nothing any more.
                for link in self.managers[receiver].incoming.clone() {
                    self.links[link].open = false;
                    self.messages.push(Message::Closed(link));
                }
            }
        }
        self.take_turns(holder);
        self.begin(link);
    }
}
