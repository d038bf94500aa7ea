//! A breadth-first explorer of state spaces: visits every state that a world can reach, checks each, and
//! shows the shortest way to the first one that is wrong.
//!
//! Made for millions of states. A state is stored once; the index holds eight bytes per slot, the graph
//! four bytes per transition, and actions are not stored at all: the path to a counter-example is found
//! again by asking the world once more. That is why `World::next` must be a pure function of the state.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::hash::{BuildHasherDefault, Hasher};

/// What is explored.
pub trait World {
    type State: Clone + Eq + Hash;
    type Action: fmt::Debug;

    /// The states to begin with.
    fn initial(&self) -> Vec<Self::State>;
    /// Reports every action that is possible in the state, with the state it leads to.
    fn next(&self, state: &Self::State, step: &mut dyn FnMut(Self::Action, Self::State));
    /// The invariants: an error says which one the state breaks.
    fn check(&self, state: &Self::State) -> Result<(), String>;
    /// True where the world may stay for ever. From every state one of these must be reachable.
    fn resting(&self, state: &Self::State) -> bool;
}

/// What was seen when nothing was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    pub transitions: usize,
    /// The number of steps to the states that are farthest from the beginning.
    pub depth: usize,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} transitions, depth {}", self.states, self.transitions, self.depth)
    }
}

/// The shortest way to a state that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterExample<Action> {
    pub path: Vec<Action>,
    pub why: String,
}

impl<Action: fmt::Debug> fmt::Display for CounterExample<Action> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.why)?;
        writeln!(f, "shortest way there, {} steps:", self.path.len())?;
        for (number, action) in self.path.iter().enumerate() {
            writeln!(f, "{:>4}. {action:?}", number + 1)?;
        }
        Ok(())
    }
}

/// Visits every reachable state. More than `limit` states is a failure too: a walk that was cut short
/// proves nothing.
pub fn explore<W: World>(world: &W, limit: usize) -> Result<Explored, CounterExample<W::Action>> {
    let mut seen = Seen::<W::State>::default();
    for state in world.initial() {
        seen.add(state, NONE);
    }
    // Expanding in the order of discovery makes the walk breadth-first: the first violation is a nearest one.
    let mut depth = 0;
    let mut level_end = seen.states.len();
    let mut here = 0;
    while here < seen.states.len() {
        if here == level_end {
            depth += 1;
            level_end = seen.states.len();
        }
        let state = seen.states[here].clone();
        if let Err(why) = world.check(&state) {
            return Err(CounterExample { path: path_to(world, &seen, here), why });
        }
        if seen.states.len() > limit {
            let why = format!("not explored to the end: more than {limit} states");
            return Err(CounterExample { path: path_to(world, &seen, here), why });
        }
        world.next(&state, &mut |_, following| {
            let target = seen.add(following, here as u32);
            seen.targets.push(target);
        });
        seen.first_target.push(seen.targets.len());
        here += 1;
    }
    match first_without_rest(world, &seen) {
        Some(stuck) => Err(CounterExample {
            path: path_to(world, &seen, stuck),
            why: "no resting state can be reached any more".into(),
        }),
        None => Ok(Explored { states: seen.states.len(), transitions: seen.targets.len(), depth }),
    }
}

const NONE: u32 = u32::MAX;

/// Every state in the order of its discovery, and the graph between them.
struct Seen<State> {
    states: Vec<State>,
    /// From where each state was discovered: a tree of shortest ways.
    parents: Vec<u32>,
    /// Open addressing: the upper half of the hash in the upper half, the number of the state in the lower.
    slots: Vec<u64>,
    targets: Vec<u32>,
    /// The transitions of state `i` are `targets[first_target[i]..first_target[i + 1]]`.
    first_target: Vec<usize>,
}

impl<State> Default for Seen<State> {
    fn default() -> Self {
        let slots = vec![u64::MAX; 1 << 10];
        Seen { states: Vec::new(), parents: Vec::new(), slots, targets: Vec::new(), first_target: vec![0] }
    }
}

impl<State: Eq + Hash> Seen<State> {
    /// The number of the state, which is stored if it is new.
    fn add(&mut self, state: State, parent: u32) -> u32 {
        if self.states.len() * 4 >= self.slots.len() * 3 {
            self.double_the_index();
        }
        let hash = hash_of(&state);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != u64::MAX {
            let number = self.slots[slot] as u32;
            if self.slots[slot] >> 32 == hash >> 32 && self.states[number as usize] == state {
                return number;
            }
            slot = (slot + 1) & mask;
        }
        let number = u32::try_from(self.states.len()).ok().filter(|number| *number != NONE);
        let number = number.expect("a walk has fewer than 2^32 - 1 states");
        self.slots[slot] = hash >> 32 << 32 | u64::from(number);
        self.states.push(state);
        self.parents.push(parent);
        number
    }

    fn double_the_index(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![u64::MAX; mask + 1];
        for (number, state) in self.states.iter().enumerate() {
            let hash = hash_of(state);
            let mut slot = hash as usize & mask;
            while slots[slot] != u64::MAX {
                slot = (slot + 1) & mask;
            }
            slots[slot] = hash >> 32 << 32 | number as u64;
        }
        self.slots = slots;
    }
}

/// The actions that lead to a state, found again by expanding the states on the way to it.
fn path_to<W: World>(world: &W, seen: &Seen<W::State>, state: usize) -> Vec<W::Action> {
    let mut path = Vec::new();
    let mut child = state;
    while seen.parents[child] != NONE {
        let parent = seen.parents[child] as usize;
        let mut found = None;
        world.next(&seen.states[parent], &mut |action, following| {
            if found.is_none() && following == seen.states[child] {
                found = Some(action);
            }
        });
        path.push(found.expect("World::next reports the same steps each time it is asked"));
        child = parent;
    }
    path.reverse();
    path
}

/// The first state, in the order of discovery, from which no resting state can be reached: walks the
/// transitions backwards from every resting state.
fn first_without_rest<W: World>(world: &W, seen: &Seen<W::State>) -> Option<usize> {
    let count = seen.states.len();
    // A counting sort turns the graph around: the sources of state `i` end up between two entries of `first`.
    let mut first = vec![0_usize; count + 1];
    for target in &seen.targets {
        first[*target as usize] += 1;
    }
    let mut total = 0;
    for entry in &mut first {
        total += *entry;
        *entry = total;
    }
    let mut sources = vec![0_u32; seen.targets.len()];
    for source in 0..count {
        for target in &seen.targets[seen.first_target[source]..seen.first_target[source + 1]] {
            first[*target as usize] -= 1;
            sources[first[*target as usize]] = source as u32;
        }
    }
    let mut can_rest: Vec<bool> = seen.states.iter().map(|state| world.resting(state)).collect();
    let mut to_visit: Vec<u32> = (0..count as u32).filter(|state| can_rest[*state as usize]).collect();
    while let Some(state) = to_visit.pop() {
        for source in &sources[first[state as usize]..first[state as usize + 1]] {
            if !std::mem::replace(&mut can_rest[*source as usize], true) {
                to_visit.push(*source);
            }
        }
    }
    can_rest.iter().position(|rests| !rests)
}

fn hash_of<State: Hash>(state: &State) -> u64 {
    BuildHasherDefault::<FastHasher>::default().hash_one(state)
}

/// Multiplies and rotates each word into the hash, and mixes once at the end, since both the lowest bits
/// (the slot) and the highest (the tag) are used. The standard hasher defends against chosen input, which
/// there is none of here, and costs several times as much.
#[derive(Default)]
struct FastHasher(u64);

impl FastHasher {
    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let mut rest = [0; 8];
        rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        if !chunks.remainder().is_empty() {
            self.word(u64::from_le_bytes(rest));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }
    fn write_u16(&mut self, value: u16) {
        self.word(value.into());
    }
    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ mixed >> 32
    }
}
