//! An abstract device: its disk, what guard has written on it, and what the walk knows beyond that.
//!
//! It carries out effects one at a time, as the executor does, and can stop inside those that have an inside. It
//! decides nothing: what is done comes from the shipped `plan`, `effects`, `retention` and `Boots`.

use logic::guard::{
    Boots, Copies, Data, DataRecord, DataState, Effect, Metadata, Observed, Operation, Owner, Place, PreRun,
    Recorded, RestoreRequest, Seq, Unfinished, Wanted,
};

use super::cast::{Cast, Listing};

/// What is in a tree, told by who wrote it last. Two trees with the same content are the same, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The boot whose workload wrote it last; 0 for what was there before guard was.
    pub writer: Seq,
    /// How often the workload had run in that boot.
    pub run: u8,
    /// A migration has changed it since.
    pub migrated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// Its `version.json`.
    pub record: Option<DataRecord>,
    /// False while half copied, half migrated, half removed, and for whatever is made from such.
    pub intact: bool,
    pub content: Content,
}

impl Tree {
    pub fn is_ok(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.state == DataState::Ok)
    }
}

/// What guard owes, and since which boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    pub seq: Seq,
    pub content: Content,
}

/// The boot that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    pub deployment: usize,
    pub faults: u8,
    pub runs: u8,
    /// Counted already as a boot that goes badly.
    pub bad: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub data: Option<Tree>,
    /// Every other tree that guard works with, wherever it stands.
    pub trees: Vec<(Place, Tree)>,
    /// The records beside the copies, whether or not their trees are there.
    pub records: Copies,
    pub journal: Option<Operation>,
    /// The trees of the restore in the journal have changed places: what the executor tells from the inode.
    pub exchanged: bool,
    pub boots: Boots,
    pub request: Option<RestoreRequest>,
    pub now: Option<Now>,
    /// Boots so far; soft reboots count.
    pub booted: u8,
    /// Mishaps so far: only to keep the walk within its bounds.
    pub mishaps: u8,
    /// What guard owes: the content of the last boot that was vouched for, as it was at that boot's end.
    pub promise: Option<Owed>,
    /// The invariant that the last transition broke.
    pub broken: Option<Broken>,
}

/// What a transition can do wrong; the states themselves are checked in `invariants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Broken {
    RanOnHalfData = 1,
    NotIdempotent,
    SilentBlock,
    NotPure,
    /// An effect found that what it needs is not there.
    CannotBeDone,
    AllowedOnHalfData,
    LostByADecision,
    /// The packed state decides otherwise than the state that was packed.
    Misremembered,
}

impl Broken {
    pub const ALL: [Self; 8] = [
        Self::RanOnHalfData,
        Self::NotIdempotent,
        Self::SilentBlock,
        Self::NotPure,
        Self::CannotBeDone,
        Self::AllowedOnHalfData,
        Self::LostByADecision,
        Self::Misremembered,
    ];
}

/// How far one effect gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Half,
    Whole,
}

impl Machine {
    pub fn blank() -> Self {
        Self {
            data: None,
            trees: vec![],
            records: Copies::default(),
            journal: None,
            exchanged: false,
            boots: Boots::default(),
            request: None,
            now: None,
            booted: 0,
            mishaps: 0,
            promise: None,
            broken: None,
        }
    }

    /// A device whose workload ran before guard came: data, and nothing that says what it is.
    pub fn with_data_from_before(&self) -> Self {
        let content = Content { writer: 0, run: 0, migrated: false };
        let data = Tree { record: None, intact: true, content };
        Self { data: Some(data), promise: Some(Owed { seq: 0, content }), ..self.clone() }
    }

    pub fn tree(&self, place: &Place) -> Option<&Tree> {
        match place {
            Place::Data => self.data.as_ref(),
            _ => self.trees.iter().find(|(at, _)| at == place).map(|(_, tree)| tree),
        }
    }

    pub fn put(&mut self, place: &Place, tree: Tree) {
        self.take(place);
        match place {
            Place::Data => self.data = Some(tree),
            _ => self.trees.push((place.clone(), tree)),
        }
    }

    pub fn take(&mut self, place: &Place) -> Option<Tree> {
        if *place == Place::Data {
            return self.data.take();
        }
        let at = self.trees.iter().position(|(at, _)| at == place)?;
        Some(self.trees.swap_remove(at).1)
    }

    /// The number of the boot under way, once it is on record.
    pub fn seq(&self, cast: &Cast) -> Option<Seq> {
        let now = self.now?;
        self.boots.find(&cast.now, &cast.deployments[now.deployment]).map(|boot| boot.seq)
    }

    pub fn observe(&self, cast: &Cast, now: Now, listing: Listing) -> Observed {
        let claimed = |number: Seq| self.journal.as_ref().is_some_and(|op| claims(op, number));
        let copies =
            self.records.iter().filter(|copy| claimed(copy.number) || self.tree(&copy.place).is_some());
        let unfinished = self
            .journal
            .clone()
            .map(|operation| Unfinished { decided: self.is_decided(&operation), operation });
        let half_built = self.trees.iter().map(|(place, _)| place).filter(|place| {
            matches!(place, Place::Staging(_) | Place::Incoming(_))
                && !self.journal.as_ref().is_some_and(|op| works_at(op, place))
        });
        Observed {
            host: cast.host(now.deployment, listing),
            boot: cast.now.clone(),
            program: cast.versions[now.deployment].clone(),
            policy: cast.policy.clone(),
            metadata: Metadata::Readable,
            data: match &self.data {
                None => Data::Absent,
                Some(Tree { record: None, .. }) => Data::Present(Recorded::Missing),
                Some(Tree { record: Some(record), .. }) => Data::Present(Recorded::Known(record.clone())),
            },
            boots: self.boots.clone(),
            copies: Copies::new(copies.cloned().collect()),
            request: self.request.clone(),
            unfinished,
            leftovers: half_built.cloned().collect(),
            foreign: vec![],
            last_number: self.last_number(),
        }
    }

    /// The highest number in a name: every copy's record, and every tree that is called by a number.
    fn last_number(&self) -> Seq {
        let of_trees = self.trees.iter().filter_map(|(place, _)| match place {
            Place::Incoming(number) | Place::Staging(number) | Place::Generation(_, number) => Some(*number),
            _ => None,
        });
        of_trees.chain([self.records.last_number()]).max().unwrap_or(0)
    }

    /// What the executor looks at to tell whether an operation had passed its point of no return.
    pub fn is_decided(&self, operation: &Operation) -> bool {
        match operation {
            Operation::Backup { copy, .. } => self.records.get(copy.number).is_some(),
            Operation::MoveAside { copy } => self.tree(&copy.place).is_some(),
            Operation::Restore { .. } => self.exchanged,
            Operation::Discard { .. } => true,
        }
    }

    /// Carries out one effect, or half of it. False: it had nothing to work on, which must never be.
    pub fn apply(&mut self, cast: &Cast, effect: &Effect, extent: Extent) -> bool {
        match effect {
            Effect::RecordBoot { seq } => {
                return self.enter(cast, *seq) && self.set_pre_run(*seq, PreRun::Begun);
            }
            Effect::FinishPreRun { seq, ready } => {
                let reached = if *ready { PreRun::Ready } else { PreRun::Failed };
                return self.set_pre_run(*seq, reached);
            }
            Effect::Begin(operation) => {
                self.journal = Some(operation.clone());
                self.exchanged = false;
            }
            Effect::End => {
                self.journal = None;
                self.exchanged = false;
            }
            Effect::Build { from, to } => {
                let Some(mut tree) = self.tree(from).cloned() else {
                    return false;
                };
                tree.intact &= extent == Extent::Whole;
                self.put(to, tree);
            }
            Effect::Commit(copy) => {
                self.records.forget(copy.number);
                self.records.add(copy.clone());
            }
            Effect::Relabel { number, place } => {
                if let Some(copy) = self.records.get_mut(*number) {
                    copy.place = place.clone();
                }
            }
            Effect::Forget { number } => self.records.forget(*number),
            Effect::Move { from, to } => {
                let across = is_across_file_systems(effect);
                if self.tree(to).is_none() {
                    let Some(mut tree) = self.take(from) else { return false };
                    self.put(to, tree.clone());
                    if extent == Extent::Half {
                        tree.intact = false;
                        self.put(from, tree);
                    }
                } else if across {
                    self.take(from);
                }
            }
            Effect::Exchange { incoming } => {
                let place = Place::Incoming(*incoming);
                let Some(tree) = self.take(&place) else {
                    return false;
                };
                if let Some(old) = self.data.replace(tree) {
                    self.put(&place, old);
                }
                self.exchanged = true;
            }
            Effect::Remove { place } => {
                if let Some(mut tree) = self.take(place)
                    && extent == Extent::Half
                {
                    tree.intact = false;
                    self.put(place, tree);
                }
            }
            Effect::PinRequest { number } => {
                self.request = Some(RestoreRequest { wanted: Wanted::Number(*number), at: String::new() });
            }
            Effect::ClearRequest => self.request = None,
            Effect::StampAssumed { .. }
            | Effect::StampMigrating { .. }
            | Effect::RunMigration { .. }
            | Effect::StampMigrated { .. } => {
                let Some(data) = &mut self.data else { return false };
                return change_data(data, effect, extent);
            }
        }
        true
    }

    /// Enters the boot under way, if it is not yet on record under this number.
    pub fn enter(&mut self, cast: &Cast, seq: Seq) -> bool {
        let Some(now) = self.now else { return false };
        if self.boots.get(seq).is_none() {
            self.now = Some(Now { runs: 0, ..now });
        }
        self.boots.enter(seq, &cast.now, &cast.deployments[now.deployment], "") == seq
    }

    fn set_pre_run(&mut self, seq: Seq, reached: PreRun) -> bool {
        let Some(boot) = self.boots.get_mut(seq) else {
            return false;
        };
        boot.pre_run = reached;
        true
    }

    /// The executor's answer to a migration that failed, where it lives long enough to give it.
    pub fn stamp_failed(&mut self) {
        if let Some(Tree { record: Some(record), .. }) = &mut self.data
            && let DataState::Tainted { failed, .. } = &mut record.state
        {
            *failed = true;
        }
    }
}

/// The data directory may be on another file system than the backups; then a move is a copy and a removal, and has
/// an inside: the copy is there, the old tree is half gone.
pub fn is_across_file_systems(effect: &Effect) -> bool {
    matches!(effect, Effect::Move { from: Place::Data | Place::Incoming(_), to: Place::Aside(_) })
}

fn change_data(data: &mut Tree, effect: &Effect, extent: Extent) -> bool {
    match effect {
        Effect::StampAssumed { version, deployment } => {
            data.record = Some(DataRecord {
                version: version.clone(),
                owner: Owner { deployment: deployment.clone(), seq: None },
                state: DataState::Ok,
            });
        }
        Effect::StampMigrating { from, to, base, seq, deployment } => {
            data.record = Some(DataRecord {
                version: from.clone(),
                owner: Owner { deployment: deployment.clone(), seq: Some(*seq) },
                state: DataState::Tainted {
                    failed: false,
                    from: from.clone(),
                    to: to.clone(),
                    base: Some(*base),
                },
            });
        }
        Effect::RunMigration { .. } => {
            data.intact &= extent == Extent::Whole;
            data.content.migrated = true;
        }
        Effect::StampMigrated { version, seq, deployment } => {
            data.record = Some(DataRecord {
                version: version.clone(),
                owner: Owner { deployment: deployment.clone(), seq: Some(*seq) },
                state: DataState::Ok,
            });
        }
        _ => return false,
    }
    true
}

/// Is this copy one that the operation makes, moves or removes?
fn claims(operation: &Operation, number: Seq) -> bool {
    match operation {
        Operation::Backup { copy, make_room, recycle } => {
            copy.number == number
                || make_room.iter().any(|moved| moved.number == number)
                || recycle.as_ref().is_some_and(|old| old.number == number)
        }
        Operation::MoveAside { copy } => copy.number == number,
        Operation::Restore { displaced, .. } => displaced.as_ref().is_some_and(|copy| copy.number == number),
        Operation::Discard { number: gone, .. } => *gone == number,
    }
}

/// Is this half-built tree one that the operation accounts for?
fn works_at(operation: &Operation, place: &Place) -> bool {
    match operation {
        Operation::Backup { copy, .. } => *place == Place::Staging(copy.number),
        Operation::Restore { incoming, .. } => *place == Place::Incoming(*incoming),
        Operation::MoveAside { .. } | Operation::Discard { .. } => false,
    }
}
