//! An appliance in the abstract: its disk, its power, the process that upgrades it, and all that can happen to them.

use std::hash::{Hash, Hasher};

use logic::upgrade::{
    Ask, Begin, Begun, Image, ImageId, Kind, Leftovers, Next, Point, Present, Record, Recovery,
    ReleaseVersion, SnapshotId, Step, TakeUp, Transaction, Trouble, Way, Wish, leftovers, may_resume,
    may_roll_back, may_upgrade, take_up, trouble,
};
use testkit::explore;

use crate::upgrade::mistakes::{Mistake, next_of, recovery_of};

pub struct World {
    pub mistake: Option<Mistake>,
}

/// The data of a release, with what was written to it; or something in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Data {
    Of { release: u64, writes: u8 },
    Torn,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Snap {
    id: SnapshotId,
    image: Option<ImageId>,
    data: Data,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Process {
    Dead,
    /// At the beginning of a loop, with what it was started for.
    Alive(Goal),
    Intended(Goal, Step),
    Half(Goal, Step),
    Effected(Goal, Step),
}

/// What is left to do for a wish, once the transaction of before is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Goal {
    Nothing,
    Upgrade(u64),
    RollBack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    current: u64,
    data: Data,
    images: Vec<u64>,
    snapshots: Vec<Snap>,
    point: Option<Point>,
    transaction: Option<Transaction>,
    /// Which release runs.
    on: Option<u64>,
    /// Whether it should run when nothing is in progress: as it did before.
    wanted: bool,
    /// What the release in force has acknowledged.
    acknowledged: u8,
    /// The release that was asked whether it is ready, and was, since it was started.
    proved: Option<u64>,
    /// The machine went down under it: whoever starts machines has to start it again.
    cut: bool,
    process: Process,
    names: u8,
    crashes: u8,
    failures: u8,
    upgrades: u8,
    rollbacks: u8,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.current, self.data, &self.images, &self.snapshots).hash(hasher);
        (self.on, self.wanted, self.process, self.crashes, self.failures).hash(hasher);
        if let Some(transaction) = &self.transaction {
            (transaction.way, &transaction.done, transaction.doing).hash(hasher);
        }
    }
}

const CRASHES: u8 = 2;
const FAILURES: u8 = 2;
const UPGRADES: u8 = 2;
const ROLLBACKS: u8 = 1;

fn version(release: u64) -> ReleaseVersion {
    ReleaseVersion::parse(&format!("v-{release}-c")).expect("a version")
}

fn image(release: u64) -> Image {
    Image::new(version(release), "sha256:00")
}

fn id(release: u64) -> ImageId {
    image(release).id
}

#[derive(Debug)]
#[allow(dead_code)] // read by whoever reads a counter-example
pub enum Action {
    Wish(Wish, u64),
    Refused(Wish),
    Write,
    Journal(Record),
    EffectHalf(Step),
    Effect(Step),
    Fail(Step),
    Kill,
    PowerCut,
    End,
}

impl World {
    fn name(&self, state: &mut State) -> SnapshotId {
        if self.mistake != Some(Mistake::OneNameForSnapshots) {
            state.names += 1;
        }
        SnapshotId::new([state.names; 12])
    }

    fn begin(&self, state: &mut State, kind: Kind, to: u64) {
        let begin = Begin {
            kind,
            from: image(state.current),
            to: image(to),
            reference: String::new(),
            was_on: state.on.is_some(),
            was_ready: state.on.is_some(),
            secrets: vec![],
            snapshot: self.name(state),
            point: state.point.clone(),
        };
        state.wanted = begin.was_on;
        state.cut = false;
        state.transaction = Transaction::from_records(&[Record::Begin(Box::new(begin))]);
    }

    /// What a new process does about a wish. None: it is refused.
    fn wish(&self, state: &State, wish: Wish, to: u64) -> Option<State> {
        let mut state = state.clone();
        let goal = match wish {
            Wish::Upgrade => Goal::Upgrade(to),
            Wish::RollBack => Goal::RollBack,
            Wish::Resume | Wish::Start => Goal::Nothing,
        };
        let Some(transaction) = &mut state.transaction else {
            if wish == Wish::Resume {
                return None;
            }
            return self.start(&state, goal);
        };
        let first = match (take_up(wish, transaction), wish) {
            (TakeUp::GoOn | TakeUp::Undo, Wish::Start) if !transaction.committed => {
                match recovery_of(transaction, self.mistake) {
                    Recovery::GoOn => TakeUp::GoOn,
                    Recovery::Undo => TakeUp::Undo,
                }
            }
            (first, _) => first,
        };
        if self.mistake != Some(Mistake::PowerIsBelieved) {
            transaction.add(&Record::TakenOver);
        }
        let undo = Record::Undo { why: String::new() };
        let goal = match first {
            TakeUp::GoOn => goal,
            TakeUp::Undo => {
                transaction.add(&undo);
                goal
            }
            TakeUp::UndoOnly => {
                let back = transaction.way == Way::Back;
                if !back || self.mistake == Some(Mistake::RevertedTwice) {
                    transaction.add(&undo);
                }
                Goal::Nothing
            }
            TakeUp::Again => {
                let before = state.transaction.clone();
                let begun = with_present(&state, may_resume).ok()?;
                state.transaction = before;
                if begun == Begun::Again {
                    state.transaction.as_mut()?.add(&Record::Resume);
                }
                Goal::Nothing
            }
            TakeUp::Refuse => return None,
        };
        state.process = Process::Alive(goal);
        Some(state)
    }

    /// Begins what is wished for, nothing being in progress.
    fn start(&self, state: &State, goal: Goal) -> Option<State> {
        let mut state = state.clone();
        match goal {
            Goal::Nothing => return None,
            Goal::Upgrade(to) => {
                let asked = with_present(&state, |present| may_upgrade(present, &image(to)));
                if asked != Ok(Ask::Begin) || state.upgrades == 0 {
                    return None;
                }
                state.upgrades -= 1;
                self.begin(&mut state, Kind::Upgrade, to);
            }
            Goal::RollBack => {
                let to = with_present(&state, |present| may_roll_back(present).cloned()).ok()?;
                if state.rollbacks == 0 {
                    return None;
                }
                state.rollbacks -= 1;
                self.begin(&mut state, Kind::Rollback, to.image.version.build());
            }
        }
        state.process = Process::Alive(Goal::Nothing);
        Some(state)
    }

    /// An effect, in part or whole; `resumed`: its other part is done. None: it cannot be had.
    fn effect(&self, state: &mut State, step: Step, whole: bool, resumed: bool) -> Option<()> {
        let transaction = state.transaction.clone()?;
        let begin = &transaction.begin;
        let (from, to) = (begin.from.version.build(), begin.to.version.build());
        match step {
            Step::Stage => {
                // The image in force is not replaced.
                if state.current == to {
                    return None;
                }
                if whole && !state.images.contains(&to) {
                    state.images.push(to);
                    state.images.sort_unstable();
                }
            }
            Step::Prepare => {
                if !state.snapshots.iter().any(|snap| snap.id == begin.snapshot) {
                    state.snapshots.push(Snap { id: begin.snapshot.clone(), image: None, data: Data::Torn });
                }
            }
            Step::Snapshot => {
                let image = whole.then(|| id(state.current));
                let taken = Snap { id: begin.snapshot.clone(), image, data: state.data };
                match state.snapshots.iter_mut().find(|snap| snap.id == begin.snapshot) {
                    // One that is whole is not taken twice.
                    Some(snap) if snap.image.is_some() => {}
                    Some(snap) => *snap = taken,
                    None => state.snapshots.push(taken),
                }
            }
            Step::PowerOff => (state.on, state.proved) = (None, None),
            Step::Migrate => {
                // The half that is done is known to the process that did it, and to no other.
                let before = if resumed { kept(state, &begin.snapshot) } else { state.data };
                state.data = match before {
                    Data::Of { release, writes } if release == from && whole => {
                        Data::Of { release: to, writes }
                    }
                    _ => Data::Torn,
                }
            }
            Step::Reconfigure => state.current = to,
            Step::Revert | Step::Return => {
                let wanted = match step {
                    Step::Return => &begin.point.as_ref()?.snapshot,
                    _ => &begin.snapshot,
                };
                let snap = state.snapshots.iter().find(|snap| snap.id == *wanted)?;
                let image = snap.image.clone()?;
                state.data = snap.data;
                if whole {
                    state.current = (1..=3).find(|release| id(*release) == image)?;
                }
            }
            Step::PowerOn => {
                if !state.images.contains(&state.current) {
                    return None;
                }
                if state.on.is_none() {
                    (state.on, state.proved) = (Some(state.current), None);
                }
            }
            Step::ProveReady => {
                if state.on != Some(state.current) {
                    return None;
                }
                if whole {
                    state.proved = state.on;
                }
            }
            Step::Commit => {}
            Step::KeepPoint => {
                if whole {
                    state.point = (begin.kind == Kind::Upgrade).then(|| Point {
                        snapshot: begin.snapshot.clone(),
                        image: begin.from.clone(),
                        left_for: begin.to.clone(),
                    });
                }
            }
            Step::Tidy => {
                let images: Vec<ImageId> = state.images.iter().map(|release| id(*release)).collect();
                let snapshots: Vec<SnapshotId> = state.snapshots.iter().map(|snap| snap.id.clone()).collect();
                let point = match self.mistake {
                    Some(Mistake::PointDroppedFirst) => None,
                    _ => state.point.as_ref(),
                };
                let Leftovers { snapshots, images } =
                    leftovers(&id(state.current), point, &[], &snapshots, &images);
                state.snapshots.retain(|snap| !snapshots.contains(&snap.id));
                if whole {
                    state.images.retain(|release| !images.contains(&id(*release)));
                }
            }
        }
        Some(())
    }

    fn failed(&self, state: &State, step: Step) -> State {
        let mut state = state.clone();
        if let Some(transaction) = &mut state.transaction {
            let what = trouble(transaction, step);
            transaction.add(&Record::Failed { step, why: String::new() });
            state.process = match what {
                Trouble::Undo => {
                    transaction.add(&Record::Undo { why: String::new() });
                    Process::Alive(Goal::Nothing)
                }
                Trouble::Stuck | Trouble::Untidy => Process::Dead,
            };
        }
        state
    }
}

fn kept(state: &State, wanted: &SnapshotId) -> Data {
    state.snapshots.iter().find(|snap| snap.id == *wanted).map_or(Data::Torn, |snap| snap.data)
}

fn with_present<T>(state: &State, ask: impl FnOnce(&Present<'_>) -> T) -> T {
    let current = image(state.current);
    let images: Vec<ImageId> = state.images.iter().map(|release| id(*release)).collect();
    let whole = state.snapshots.iter().filter_map(|snap| Some((snap.id.clone(), snap.image.clone()?)));
    let snapshots: Vec<(SnapshotId, ImageId)> = whole.collect();
    ask(&Present {
        current: &current,
        point: state.point.as_ref(),
        interrupted: state.transaction.as_ref(),
        images: &images,
        snapshots: &snapshots,
        workloads: &[],
        ready: state.on == Some(state.current),
    })
}

impl explore::World for World {
    type State = State;
    type Action = Action;

    fn initial(&self) -> Vec<State> {
        let start = |on: bool| State {
            current: 1,
            data: Data::Of { release: 1, writes: 0 },
            images: vec![1],
            snapshots: vec![],
            point: None,
            transaction: None,
            on: on.then_some(1),
            wanted: on,
            acknowledged: 0,
            proved: on.then_some(1),
            cut: false,
            process: Process::Dead,
            names: 0,
            crashes: CRASHES,
            failures: FAILURES,
            upgrades: UPGRADES,
            rollbacks: ROLLBACKS,
        };
        vec![start(true), start(false)]
    }

    fn next(&self, state: &State, step: &mut dyn FnMut(Action, State)) {
        // Whoever runs writes, as long as it is not told to stop.
        if let (Some(release), Data::Of { release: owner, writes: 0 }) = (state.on, state.data) {
            let mut written = state.clone();
            written.data = Data::Of { release: owner, writes: 1 };
            let in_force = state.transaction.as_ref().is_none_or(|transaction| {
                transaction.committed || release == transaction.begin.from.version.build()
            });
            if in_force {
                written.acknowledged = 1;
            }
            step(Action::Write, written);
        }
        if state.process != Process::Dead && state.crashes > 0 {
            let mut killed = state.clone();
            killed.process = Process::Dead;
            killed.crashes -= 1;
            let mut cut = killed.clone();
            (cut.on, cut.proved, cut.cut) = (None, None, true);
            step(Action::Kill, killed);
            step(Action::PowerCut, cut);
        }
        match state.process {
            Process::Dead => {
                let wishes = [
                    (Wish::Upgrade, state.current + 1),
                    (Wish::Resume, 0),
                    (Wish::RollBack, 0),
                    (Wish::Start, 0),
                ];
                for (wish, to) in wishes.into_iter().filter(|(_, to)| *to <= 3) {
                    match self.wish(state, wish, to) {
                        Some(next) => step(Action::Wish(wish, to), next),
                        None => step(Action::Refused(wish), state.clone()),
                    }
                }
            }
            Process::Alive(goal) => {
                let Some(transaction) = &state.transaction else { return };
                let mut following = state.clone();
                match next_of(transaction, self.mistake) {
                    Next::Do(what) => {
                        let record = Record::Doing(what);
                        if let Some(transaction) = &mut following.transaction {
                            transaction.add(&record);
                        }
                        following.process = Process::Intended(goal, what);
                        step(Action::Journal(record), following);
                    }
                    Next::Committed | Next::Undone => {
                        if let (true, Data::Of { writes, .. }) = (transaction.committed, state.data) {
                            following.acknowledged = writes;
                        }
                        following.transaction = None;
                        following.process = Process::Dead;
                        let begun = self.start(&following, goal);
                        step(Action::End, begun.unwrap_or(following));
                    }
                }
            }
            Process::Intended(goal, what) | Process::Half(goal, what) => {
                if matches!(state.process, Process::Intended(..)) {
                    let mut half = state.clone();
                    half.process = Process::Half(goal, what);
                    if self.effect(&mut half, what, false, false).is_some() {
                        step(Action::EffectHalf(what), half);
                    }
                }
                let mut whole = state.clone();
                whole.process = Process::Effected(goal, what);
                let half = matches!(state.process, Process::Half(..));
                let can = self.effect(&mut whole, what, true, half).is_some();
                if can {
                    step(Action::Effect(what), whole);
                }
                if !can || state.failures > 0 {
                    let mut failed = self.failed(state, what);
                    failed.failures = failed.failures.saturating_sub(1);
                    step(Action::Fail(what), failed);
                }
            }
            Process::Effected(goal, what) => {
                let mut following = state.clone();
                let record = Record::Done(what);
                if let Some(transaction) = &mut following.transaction {
                    transaction.add(&record);
                }
                following.process = Process::Alive(goal);
                step(Action::Journal(record), following);
            }
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        let wrong = |why: &str| Err(format!("{why}\n{state:#?}"));
        let owner = match state.data {
            Data::Of { release, .. } => Some(release),
            Data::Torn => None,
        };
        if state.on.is_some() && state.on != owner {
            return wrong("a release runs on data that is not its own");
        }
        if let Some(point) = &state.point {
            let release = point.image.version.build();
            let whole = state.snapshots.iter().any(|snap| {
                snap.id == point.snapshot
                    && snap.image == Some(point.image.id.clone())
                    && matches!(snap.data, Data::Of { release: owner, .. } if owner == release)
            });
            if !whole || !state.images.contains(&release) {
                return wrong("the rollback point leads nowhere");
            }
        }
        match &state.transaction {
            None => {
                if owner != Some(state.current) || !state.images.contains(&state.current) {
                    return wrong("nothing is in progress, and release and data do not fit");
                }
                if matches!(state.data, Data::Of { writes, .. } if writes < state.acknowledged) {
                    return wrong("what was acknowledged is lost");
                }
                if state.on.is_some() != state.wanted && !state.cut {
                    return wrong("it runs and should not, or should and does not");
                }
                if state.wanted && !state.cut && state.proved != Some(state.current) {
                    return wrong("it runs, and nobody has seen that it is ready");
                }
                if state
                    .snapshots
                    .iter()
                    .any(|snap| state.point.as_ref().is_none_or(|point| point.snapshot != snap.id))
                {
                    return wrong("a snapshot is left that nothing leads to");
                }
            }
            Some(transaction) if !transaction.committed => {
                let from = transaction.begin.from.version.build();
                let before = Data::Of { release: from, writes: state.acknowledged };
                let kept = state.snapshots.iter().any(|snap| {
                    snap.id == transaction.begin.snapshot
                        && snap.image == Some(id(from))
                        && snap.data == before
                });
                let there = matches!(state.data, Data::Of { release, writes } if release == from && writes >= state.acknowledged);
                if !(kept || there) || !state.images.contains(&from) {
                    return wrong("the way back is lost before the way forward is proved");
                }
            }
            Some(transaction) => {
                if owner != Some(transaction.begin.to.version.build())
                    || state.current != transaction.begin.to.version.build()
                {
                    return wrong("committed, and not there");
                }
                if transaction.begin.was_on
                    && !transaction.done.contains(&Step::Tidy)
                    && transaction.doing.is_none()
                {
                    let proved = state.proved == Some(state.current) || state.cut || state.crashes < CRASHES;
                    if !proved {
                        return wrong("committed without proof");
                    }
                }
            }
        }
        Ok(())
    }

    fn resting(&self, state: &State) -> bool {
        state.transaction.is_none() && state.process == Process::Dead
    }
}
