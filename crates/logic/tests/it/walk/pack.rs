//! A device as a short string of bytes: small to keep, quick to compare, and the same for devices that differ only
//! in what no decision can see.
//!
//! What is made equal, since no decision tells it apart:
//!
//! - Boots are trimmed by the shipped `Boots::trim`, with none shown. Of those left, one whose workload was never
//!   started and that owns nothing says only that it was the last one: its verdict goes, and so does the boot once
//!   another follows. Boots that are over share one kernel name and have no pre-run phase.
//! - Numbers become ranks, those of boots and those of copies apart. That a copy was made after its owner's boot
//!   stays, in which boot does not. The name of data moved aside is its number.
//! - A copy of what a boot left that was vouched for counts as healthy, whichever came first.
//! - Contents are told apart where somebody may ask for them: what is owed, what is in the data directory, and what
//!   boots wrote that can still be found healthy. All others are one.
//!
//! `packing_forgets_nothing_that_a_plan_sees` holds these to their word.

use std::cell::Cell;

use logic::guard::{
    Boot, Boots, Copies, CopyKind, CopyRecord, DataRecord, DataState, Health, Operation, Owner, Place,
    PreRun, Relocation, RestoreRequest, Seq, Wanted,
};

use super::cast::Cast;
use super::machine::{Broken, Content, Machine, Now, Owed, Tree};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State(Box<[u8]>);

const NONE: u8 = u8::MAX;

thread_local! {
    /// Packing happens tens of millions of times: one buffer for all of them.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Forgets what no decision can see.
fn settle(machine: &mut Machine, cast: &Cast) {
    let owners = machine.records.iter().map(|copy| &copy.owner);
    let owners = owners.chain(machine.data.iter().filter_map(|tree| Some(&tree.record.as_ref()?.owner)));
    let in_journal = machine.journal.iter().filter_map(|operation| match operation {
        Operation::Backup { copy, .. } | Operation::MoveAside { copy } => Some(&copy.owner),
        Operation::Restore { displaced, .. } => displaced.as_ref().map(|copy| &copy.owner),
        Operation::Discard { .. } => None,
    });
    let needed: Vec<Seq> = owners.chain(in_journal).filter_map(|owner| owner.seq).collect();
    machine.boots.trim(|seq| needed.contains(&seq), 0);
    let (off, last) = (machine.now.is_none(), machine.boots.last_seq());
    let kept = machine.boots.iter().filter_map(|boot| {
        let mut boot = boot.clone();
        if off {
            boot.boot = cast.then.clone();
            boot.pre_run = PreRun::None;
        }
        let owns = boot.ran || needed.contains(&boot.seq);
        if !owns {
            boot.system = Health::Unknown;
        }
        (owns || boot.seq == last || boot.boot == cast.now).then_some(boot)
    });
    machine.boots = Boots::from_records(kept.collect());
    settle_contents(machine, cast);
}

fn settle_contents(machine: &mut Machine, cast: &Cast) {
    let can_be_vouched = |seq: Seq| {
        machine.boots.get(seq).is_some_and(|boot| {
            boot.boot == cast.now
                || machine.boots.last_run_of(&boot.deployment).is_some_and(|last| last.seq == seq)
        })
    };
    let in_place = machine.data.as_ref().map(|tree| tree.content);
    let owed = machine.promise.map(|owed| owed.content);
    let told_apart: Vec<Content> = machine
        .trees
        .iter()
        .filter(|(_, tree)| {
            let owner = tree.record.as_ref().and_then(|record| record.owner.seq);
            let content = Some(tree.content);
            content == owed || content == in_place || owner.is_some_and(can_be_vouched)
        })
        .map(|(_, tree)| tree.content)
        .collect();
    for (_, tree) in &mut machine.trees {
        if !told_apart.contains(&tree.content) {
            tree.content = Content { writer: 0, run: 7, migrated: false };
        }
    }
}

pub fn pack(mut machine: Machine, cast: &Cast) -> State {
    settle(&mut machine, cast);
    let machine = &machine;
    let mut out = Packer {
        cast,
        seqs: seqs(machine),
        numbers: numbers(machine),
        asides: asides(machine),
        boots: &machine.boots,
        bytes: BUFFER.take(),
    };
    out.head(machine);
    out.list(machine.boots.iter().collect(), Packer::boot);
    out.option(machine.data.as_ref(), Packer::tree);
    let mut trees: Vec<_> = machine.trees.iter().map(|(place, tree)| (out.place_of(place), tree)).collect();
    trees.sort_by_key(|(place, _)| *place);
    out.list(trees, |out, (place, tree)| {
        out.bytes.extend(place);
        out.tree(tree);
    });
    out.list(machine.records.iter().collect(), Packer::copy);
    out.option(machine.journal.as_ref(), Packer::operation);
    out.option(machine.request.as_ref(), |out, request| {
        let (tag, value) = match &request.wanted {
            Wanted::Booted => (0, 0),
            Wanted::Deployment(deployment) => (1, out.cast.index_of(deployment) as u8),
            Wanted::Number(number) => (2, out.rank(*number)),
        };
        out.bytes.extend([tag, value]);
    });
    let mut bytes = out.bytes;
    let state = State(bytes.as_slice().into());
    bytes.clear();
    BUFFER.set(bytes);
    state
}

/// Every copy that is on record, in the catalogue or in the journal.
fn copies(machine: &Machine) -> impl Iterator<Item = &CopyRecord> {
    let in_journal = match &machine.journal {
        Some(Operation::Backup { copy, recycle, .. }) => [Some(copy), recycle.as_ref()],
        Some(Operation::MoveAside { copy }) => [Some(copy), None],
        Some(Operation::Restore { displaced, .. }) => [displaced.as_ref(), None],
        Some(Operation::Discard { .. }) | None => [None, None],
    };
    machine.records.iter().chain(in_journal.into_iter().flatten())
}

fn trees(machine: &Machine) -> impl Iterator<Item = &Tree> {
    machine.data.iter().chain(machine.trees.iter().map(|(_, tree)| tree))
}

/// Every number of a boot on the device, in order.
fn seqs(machine: &Machine) -> Vec<Seq> {
    let mut all: Vec<Seq> = vec![0];
    all.extend(machine.boots.iter().map(|boot| boot.seq));
    all.extend(copies(machine).filter_map(|copy| copy.owner.seq));
    all.extend(trees(machine).map(|tree| tree.content.writer));
    all.extend(trees(machine).filter_map(|tree| tree.record.as_ref()?.owner.seq));
    all.extend(machine.promise.iter().flat_map(|owed| [owed.seq, owed.content.writer]));
    sorted(all)
}

/// Every number of a copy on the device, in order.
fn numbers(machine: &Machine) -> Vec<Seq> {
    let mut all: Vec<Seq> = vec![0];
    for copy in copies(machine) {
        all.push(copy.number);
        all.extend(copy.same_as);
        of_place(&mut all, &copy.place);
    }
    for tree in trees(machine) {
        if let Some(DataRecord { state: DataState::Tainted { base: Some(base), .. }, .. }) = &tree.record {
            all.push(*base);
        }
    }
    machine.trees.iter().for_each(|(place, _)| of_place(&mut all, place));
    match &machine.journal {
        Some(Operation::Backup { make_room, .. }) => {
            for moved in make_room {
                all.push(moved.number);
                of_place(&mut all, &moved.from);
                of_place(&mut all, &moved.to);
            }
        }
        Some(Operation::Restore { source, from, incoming, .. }) => {
            all.extend([*source, *incoming]);
            of_place(&mut all, from);
        }
        Some(Operation::Discard { number, place }) => {
            all.push(*number);
            of_place(&mut all, place);
        }
        Some(Operation::MoveAside { .. }) | None => {}
    }
    if let Some(RestoreRequest { wanted: Wanted::Number(number), .. }) = &machine.request {
        all.push(*number);
    }
    sorted(all)
}

fn sorted(mut all: Vec<Seq>) -> Vec<Seq> {
    all.sort_unstable();
    all.dedup();
    all
}

/// The names of what was moved aside, and the number that each belongs to.
fn asides(machine: &Machine) -> Vec<(&str, Seq)> {
    copies(machine)
        .filter_map(|copy| match &copy.place {
            Place::Aside(name) => Some((name.as_str(), copy.number)),
            _ => None,
        })
        .collect()
}

fn of_place(all: &mut Vec<Seq>, place: &Place) {
    if let Place::Generation(_, number) | Place::Staging(number) | Place::Incoming(number) = place {
        all.push(*number);
    }
}

struct Packer<'a> {
    cast: &'a Cast,
    seqs: Vec<Seq>,
    numbers: Vec<Seq>,
    asides: Vec<(&'a str, Seq)>,
    boots: &'a Boots,
    bytes: Vec<u8>,
}

impl Packer<'_> {
    fn rank(&self, number: Seq) -> u8 {
        self.numbers.binary_search(&number).expect("every number was collected") as u8
    }

    fn number(&mut self, number: Seq) {
        self.bytes.push(self.rank(number));
    }

    fn seq(&mut self, seq: Seq) {
        let rank = self.seqs.binary_search(&seq).expect("every boot was collected");
        self.bytes.push(rank as u8);
    }

    fn option<T>(&mut self, value: Option<T>, mut pack: impl FnMut(&mut Self, T)) {
        self.bytes.push(u8::from(value.is_some()));
        if let Some(value) = value {
            pack(self, value);
        }
    }

    fn list<T>(&mut self, values: Vec<T>, mut pack: impl FnMut(&mut Self, T)) {
        self.bytes.push(values.len() as u8);
        for value in values {
            pack(self, value);
        }
    }

    fn head(&mut self, machine: &Machine) {
        let now = machine.now.map_or(NONE, |now| {
            (now.deployment as u8) | now.faults << 2 | now.runs << 4 | u8::from(now.bad) << 6
        });
        let broken = machine.broken.map_or(0, |broken| broken as u8);
        self.bytes.extend([machine.booted, machine.mishaps, now, broken, u8::from(machine.exchanged)]);
        self.option(machine.promise, |out, owed: Owed| {
            out.seq(owed.seq);
            out.content(owed.content);
        });
    }

    fn content(&mut self, content: Content) {
        self.seq(content.writer);
        self.bytes.push(content.run << 1 | u8::from(content.migrated));
    }

    fn boot(&mut self, boot: &Boot) {
        self.seq(boot.seq);
        self.bytes.push(self.cast.index_of(&boot.deployment) as u8);
        let flags = boot.pre_run as u8
            | (boot.system as u8) << 2
            | u8::from(boot.ran) << 4
            | u8::from(boot.vouched) << 5
            | u8::from(boot.boot == self.cast.now) << 6;
        self.bytes.push(flags);
    }

    fn owner(&mut self, owner: &Owner) {
        self.bytes.push(self.cast.index_of(&owner.deployment) as u8);
        self.option(owner.seq, Self::seq);
    }

    fn tree(&mut self, tree: &Tree) {
        self.bytes.push(u8::from(tree.intact));
        self.content(tree.content);
        self.option(tree.record.as_ref(), |out, record| {
            out.bytes.push(out.cast.version_index(&record.version) as u8);
            out.owner(&record.owner);
            match &record.state {
                DataState::Ok => out.bytes.push(NONE),
                DataState::Tainted { failed, from, to, base } => {
                    let (from, to) = (out.cast.version_index(from), out.cast.version_index(to));
                    out.bytes.extend([u8::from(*failed), from as u8, to as u8]);
                    out.option(*base, Self::number);
                }
            }
        });
    }

    fn place_of(&self, place: &Place) -> [u8; 3] {
        let index = |deployment| self.cast.index_of(deployment) as u8;
        match place {
            Place::Data => [0, 0, 0],
            Place::Incoming(number) => [1, self.rank(*number), 0],
            Place::Staging(number) => [2, self.rank(*number), 0],
            Place::Current(of) => [3, index(of), 0],
            Place::Generation(of, number) => [4, index(of), self.rank(*number)],
            Place::LastHealthy(of) => [5, index(of), 0],
            Place::Aside(name) => {
                let number = self.asides.iter().find(|(known, _)| known == name);
                [6, number.map_or(NONE, |(_, number)| self.rank(*number)), 0]
            }
        }
    }

    fn place(&mut self, place: &Place) {
        let bytes = self.place_of(place);
        self.bytes.extend(bytes);
    }

    fn copy(&mut self, copy: &CopyRecord) {
        self.number(copy.number);
        let flags = u8::from(copy.kind == CopyKind::Aside)
            | u8::from(copy.is_vouched(self.boots)) << 1
            | u8::from(copy.tainted) << 2;
        self.bytes.push(flags);
        self.place(&copy.place);
        self.owner(&copy.owner);
        self.option(copy.version.as_ref(), |out, version| {
            out.bytes.push(out.cast.version_index(version) as u8);
        });
        self.bytes.push(u8::from(copy.made_in > copy.owner.seq.unwrap_or(0)));
        self.option(copy.same_as, Self::number);
    }

    fn operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Backup { copy, make_room, recycle } => {
                self.bytes.push(0);
                self.copy(copy);
                self.list(make_room.iter().collect(), |out, moved: &Relocation| {
                    out.number(moved.number);
                    out.place(&moved.from);
                    out.place(&moved.to);
                });
                self.option(recycle.as_ref(), Self::copy);
            }
            Operation::MoveAside { copy } => {
                self.bytes.push(1);
                self.copy(copy);
            }
            Operation::Restore { source, from, incoming, displaced } => {
                self.bytes.push(2);
                self.number(*source);
                self.place(from);
                self.number(*incoming);
                self.option(displaced.as_ref(), Self::copy);
            }
            Operation::Discard { number, place } => {
                self.bytes.push(3);
                self.number(*number);
                self.place(place);
            }
        }
    }
}

pub fn unpack(state: &State, cast: &Cast) -> Machine {
    let mut from = Unpacker { cast, bytes: state.0.iter() };
    let mut machine = from.head();
    machine.boots = Boots::from_records(from.list(Unpacker::boot));
    machine.data = from.option(Unpacker::tree);
    machine.trees = from.list(|from| (from.place(), from.tree()));
    machine.records = Copies::new(from.list(Unpacker::copy));
    machine.journal = from.option(Unpacker::operation);
    machine.request = from.option(|from| RestoreRequest {
        wanted: match (from.byte(), from.byte()) {
            (0, _) => Wanted::Booted,
            (1, at) => Wanted::Deployment(from.cast.deployments[at as usize].clone()),
            (_, number) => Wanted::Number(number.into()),
        },
        at: String::new(),
    });
    machine
}

struct Unpacker<'a> {
    cast: &'a Cast,
    bytes: std::slice::Iter<'a, u8>,
}

impl Unpacker<'_> {
    fn byte(&mut self) -> u8 {
        *self.bytes.next().expect("a state is packed whole")
    }

    fn number(&mut self) -> Seq {
        self.byte().into()
    }

    fn option<T>(&mut self, mut unpack: impl FnMut(&mut Self) -> T) -> Option<T> {
        (self.byte() == 1).then(|| unpack(self))
    }

    fn list<T>(&mut self, mut unpack: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.byte();
        (0..count).map(|_| unpack(self)).collect()
    }

    fn head(&mut self) -> Machine {
        let (booted, mishaps, now) = (self.byte(), self.byte(), self.byte());
        let (broken, exchanged) = (self.byte(), self.byte() == 1);
        Machine {
            booted,
            mishaps,
            now: (now != NONE).then_some(Now {
                deployment: (now & 3).into(),
                faults: now >> 2 & 3,
                runs: now >> 4 & 3,
                bad: now >> 6 & 1 == 1,
            }),
            broken: Broken::ALL.iter().copied().find(|known| *known as u8 == broken),
            exchanged,
            promise: self.option(|from| Owed { seq: from.number(), content: from.content() }),
            ..Machine::blank()
        }
    }

    fn content(&mut self) -> Content {
        let (writer, flags) = (self.number(), self.byte());
        Content { writer, run: flags >> 1, migrated: flags & 1 == 1 }
    }

    fn boot(&mut self) -> Boot {
        let (seq, deployment, flags) = (self.number(), self.byte(), self.byte());
        let is_now = flags >> 6 & 1 == 1;
        Boot {
            seq,
            boot: if is_now { &self.cast.now } else { &self.cast.then }.clone(),
            deployment: self.cast.deployments[deployment as usize].clone(),
            pre_run: [PreRun::None, PreRun::Begun, PreRun::Ready, PreRun::Failed][usize::from(flags & 3)],
            ran: flags >> 4 & 1 == 1,
            workload: Health::Unknown,
            system: [Health::Unknown, Health::Healthy, Health::Unhealthy][usize::from(flags >> 2 & 3)],
            vouched: flags >> 5 & 1 == 1,
            at: String::new(),
        }
    }

    fn owner(&mut self) -> Owner {
        Owner {
            deployment: self.cast.deployments[self.byte() as usize].clone(),
            seq: self.option(Self::number),
        }
    }

    fn tree(&mut self) -> Tree {
        Tree {
            intact: self.byte() == 1,
            content: self.content(),
            record: self.option(|from| DataRecord {
                version: from.cast.versions[from.byte() as usize].clone(),
                owner: from.owner(),
                state: match from.byte() {
                    NONE => DataState::Ok,
                    failed => DataState::Tainted {
                        failed: failed == 1,
                        from: from.cast.versions[from.byte() as usize].clone(),
                        to: from.cast.versions[from.byte() as usize].clone(),
                        base: from.option(Self::number),
                    },
                },
            }),
        }
    }

    fn place(&mut self) -> Place {
        let (tag, a, b) = (self.byte(), self.byte(), self.byte());
        let of = || self.cast.deployments[a as usize].clone();
        match tag {
            0 => Place::Data,
            1 => Place::Incoming(a.into()),
            2 => Place::Staging(a.into()),
            3 => Place::Current(of()),
            4 => Place::Generation(of(), b.into()),
            5 => Place::LastHealthy(of()),
            // The names in use never clash: there is one for each number.
            _ => Place::Aside(format!("unhealthy__x{a}")),
        }
    }

    fn copy(&mut self) -> CopyRecord {
        let (number, flags) = (self.number(), self.byte());
        let (place, owner) = (self.place(), self.owner());
        CopyRecord {
            number,
            kind: if flags & 1 == 1 { CopyKind::Aside } else { CopyKind::Backup },
            healthy: flags >> 1 & 1 == 1,
            tainted: flags >> 2 & 1 == 1,
            version: self.option(|from| from.cast.versions[from.byte() as usize].clone()),
            made_in: owner.seq.unwrap_or(0) + Seq::from(self.byte()),
            place,
            owner,
            same_as: self.option(Self::number),
            bytes: 0,
        }
    }

    fn operation(&mut self) -> Operation {
        match self.byte() {
            0 => Operation::Backup {
                copy: self.copy(),
                make_room: self.list(|from| Relocation {
                    number: from.number(),
                    from: from.place(),
                    to: from.place(),
                }),
                recycle: self.option(Self::copy),
            },
            1 => Operation::MoveAside { copy: self.copy() },
            2 => Operation::Restore {
                source: self.number(),
                from: self.place(),
                incoming: self.number(),
                displaced: self.option(Self::copy),
            },
            _ => Operation::Discard { number: self.number(), place: self.place() },
        }
    }
}
