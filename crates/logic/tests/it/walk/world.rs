//! Everything that can happen to the device, one event at a time.
//!
//! What takes several effects (pre-run, run, prune, restore) is one event per way it can end: done, or stopped by a
//! fault before or inside any one of its effects. After an effect is before the next. So every disk in between is a
//! state of its own, and what comes after it is walked as well.

use std::cell::Cell;

use logic::guard::{
    Block, CopyKind, CopyRecord, DataRecord, DataState, Effect, Health, Observed, Operation, Outcome, Owner,
    Plan, PlannedStep, PreRun, RestoreRequest, Seq, Step, Wanted, effects, may_start, plan, plan_restore,
    retention,
};
use testkit::explore::World;

use super::carry::{Job, drops_what_it_displaces, mark_broken, off, one_more_fault};
use super::cast::{Cast, DEPLOYMENTS, Listing};
use super::events::{End, Event};
use super::invariants::is_listed_as_a_copy;
use super::machine::{Broken, Content, Machine, Now, Owed, Tree};
use super::mistakes::Mistake;
use super::pack::{State, pack, unpack};

/// How far a walk goes. Within these bounds it leaves nothing out.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// None: any number of boots. The states are finite all the same, since what is over is forgotten.
    pub boots: Option<u8>,
    pub faults_per_boot: u8,
    /// Mishaps over the whole life of the device: every fault, every boot that goes badly, and everything that an
    /// administrator does is one.
    pub mishaps: u8,
    pub runs_per_boot: u8,
    pub administrator: bool,
    pub soft_reboots: bool,
    /// The host may list fewer deployments than there are, or none; otherwise it always lists all.
    pub listings: bool,
    /// A device that had data before guard came is walked as well.
    pub data_from_before: bool,
}

pub struct Walk {
    pub cast: Cast,
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
    /// Holds the packing of states to its word, and `plan` to its purity: slow, for small walks.
    pub proofreads: bool,
    /// Overlooks everything but a broken promise and a workload on half data: for mistakes that break lesser rules on
    /// the way there.
    pub only_the_promise: bool,
    /// The most copies that any state has had.
    pub most_copies: Cell<usize>,
}

impl Walk {
    pub fn within(bounds: Bounds) -> Self {
        Self {
            cast: Cast::new(),
            bounds,
            mistake: None,
            proofreads: false,
            only_the_promise: false,
            most_copies: Cell::new(0),
        }
    }
}

type Emit<'a> = &'a mut dyn FnMut(Event, State);

impl World for Walk {
    type State = State;
    type Action = Event;

    fn initial(&self) -> Vec<State> {
        let blank = Machine::blank();
        let mut all = vec![];
        if self.bounds.data_from_before {
            all.push(pack(blank.with_data_from_before(), &self.cast));
        }
        all.push(pack(blank, &self.cast));
        all
    }

    fn next(&self, state: &State, step: Emit) {
        let machine = unpack(state, &self.cast);
        match machine.now {
            _ if is_rested(&machine) => {}
            None if self.bounds.boots == Some(machine.booted) => self.quiet_boot(&machine, step),
            None => {
                for deployment in 0..DEPLOYMENTS {
                    let booted = self.boot(&machine, deployment);
                    self.emit(step, Event::Boot(deployment), booted);
                }
            }
            Some(now) => self.within_a_boot(&machine, now, step),
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.check_device(&unpack(state, &self.cast))
    }

    /// The workload runs and has its verdict, or it is blocked (and every block is checked to name a way out).
    fn resting(&self, state: &State) -> bool {
        let machine = unpack(state, &self.cast);
        let boot = machine.seq(&self.cast).and_then(|seq| machine.boots.get(seq));
        is_rested(&machine)
            || boot.is_some_and(|boot| {
                (boot.ran && boot.system != Health::Unknown) || boot.pre_run == PreRun::Failed
            })
    }
}

/// Where a device ends after the last boot, if a boot without any fault still goes well.
fn rested() -> Machine {
    Machine { booted: u8::MAX, ..Machine::blank() }
}

fn is_rested(machine: &Machine) -> bool {
    machine.booted == u8::MAX
}

impl Walk {
    fn emit(&self, step: Emit, event: Event, mut machine: Machine) {
        if self.only_the_promise && machine.broken != Some(Broken::RanOnHalfData) {
            machine.broken = None;
        }
        // A rested device is the end of the walk: nothing is decided about it.
        let packed = match self.proofreads && !is_rested(&machine) && !self.is_remembered(&machine) {
            false => pack(machine, &self.cast),
            true => pack(mark_broken(machine, Broken::Misremembered), &self.cast),
        };
        step(event, packed);
    }

    pub fn boot(&self, machine: &Machine, deployment: usize) -> Machine {
        let now = Now { deployment, faults: 0, runs: 0, bad: false };
        Machine {
            now: Some(now),
            booted: self.bounds.boots.map_or(0, |_| machine.booted + 1),
            ..machine.clone()
        }
    }

    /// At the edge of the walk: whatever the device has been through, one more boot without faults ends well.
    fn quiet_boot(&self, machine: &Machine, step: Emit) {
        let last = machine.boots.iter().last().map_or(0, |boot| self.cast.index_of(&boot.deployment));
        let before = self.boot(machine, last);
        self.pre_run(&before, 0, &mut |event, after| {
            let is_fine = self.check_device(&after).is_ok();
            self.emit(step, event, if is_fine { rested() } else { after });
        });
    }

    fn within_a_boot(&self, machine: &Machine, now: Now, step: Emit) {
        let mishaps = self.bounds.mishaps - machine.mishaps;
        let faults = mishaps.min(self.bounds.faults_per_boot - now.faults);
        let mut emit = |event, after| self.emit(step, event, after);
        let boot = machine.seq(&self.cast).and_then(|seq| machine.boots.get(seq));
        let is_over = boot.is_some_and(|boot| {
            (boot.ran && boot.system != Health::Unknown) || boot.pre_run == PreRun::Failed
        });
        let at_its_end = if is_over { Some(machine.clone()) } else { self.one_more_bad_boot(machine, now) };
        if let Some(at_its_end) = at_its_end {
            emit(Event::Reboot, off(at_its_end));
        }
        let seq = self.pre_run(machine, faults, &mut emit);
        self.run(machine, now, faults, &mut emit);
        self.verdicts(machine, seq, faults, &mut emit);
        if self.bounds.soft_reboots && self.bounds.boots.is_none_or(|most| machine.booted < most) {
            for deployment in (0..DEPLOYMENTS).filter(|other| *other != now.deployment) {
                emit(Event::SoftReboot(deployment), self.boot(machine, deployment));
            }
        }
        if self.bounds.administrator && mishaps > 0 {
            let machine = Machine { mishaps: machine.mishaps + 1, ..machine.clone() };
            self.administrator(&machine, now, faults.min(mishaps - 1), &mut emit);
        }
    }

    fn listings(&self, machine: &Machine, now: Now) -> Vec<Listing> {
        if !self.bounds.listings {
            return vec![Listing::All];
        }
        let booted = &self.cast.deployments[now.deployment];
        let previous = machine.boots.iter().rev().find(|boot| boot.deployment != *booted);
        let previous = previous.map(|boot| self.cast.index_of(&boot.deployment));
        [Listing::All, Listing::Unknown].into_iter().chain(previous.map(Listing::BootedAnd)).collect()
    }

    pub fn observe(&self, machine: &Machine, now: Now, listing: Listing) -> Observed {
        let mut seen = machine.observe(&self.cast, now, listing);
        if let Some(mistake) = self.mistake {
            mistake.sees(&mut seen);
        }
        seen
    }

    fn plan(&self, seen: &Observed) -> Plan {
        let mut made = plan(seen);
        if let Some(mistake) = self.mistake {
            mistake.plans(seen, &mut made.steps);
        }
        made
    }

    fn effects_of(&self, steps: &[PlannedStep]) -> Vec<Effect> {
        let of = |planned: &PlannedStep| match self.mistake {
            Some(mistake) => mistake.effects(&planned.step),
            None => effects(&planned.step),
        };
        steps.iter().flat_map(of).collect()
    }

    /// Returns the number that this boot has, or will have once it is on record.
    fn pre_run(&self, machine: &Machine, faults: u8, emit: &mut dyn FnMut(Event, Machine)) -> Seq {
        let Some(now) = machine.now else { return 0 };
        let mut known: Vec<Plan> = vec![];
        for listing in self.listings(machine, now) {
            let seen = self.observe(machine, now, listing);
            let plan = self.plan(&seen);
            if self.proofreads && plan != self.plan(&seen.clone()) {
                emit(Event::Reboot, mark_broken(machine.clone(), Broken::NotPure));
            }
            if known.contains(&plan) {
                continue;
            }
            self.prepare(machine, &seen, &plan, faults, &mut |end, after| {
                emit(Event::PreRun { listing, branch: plan.branch, end }, after);
            });
            known.push(plan);
        }
        known.first().map_or(0, |plan| plan.seq)
    }

    /// Carries out a plan, and looks at what it leaves where it allows the workload to start.
    fn prepare(
        &self,
        machine: &Machine,
        seen: &Observed,
        plan: &Plan,
        faults: u8,
        emit: &mut dyn FnMut(End, Machine),
    ) {
        if is_silent(plan) {
            emit(End::Done, mark_broken(machine.clone(), Broken::SilentBlock));
        }
        let ready = plan.outcome == Outcome::Allow;
        let job = Job {
            effects: &self.effects_of(&plan.steps),
            verdict: Some((plan.seq, ready)),
            drops_the_displaced: drops_what_it_displaces(&plan.steps, machine),
        };
        self.carry_out(machine, &job, faults, &mut |end, mut after| {
            let is_watched = self.bounds.boots.is_none_or(|most| machine.booted <= most);
            if end == End::Done && ready && is_watched && after.broken.is_none() {
                after.broken = self.not_ready(&after, seen);
            }
            emit(end, after);
        });
    }

    /// After a pre-run that allows the workload, the data is whole, and another pre-run would leave it alone.
    fn not_ready(&self, machine: &Machine, before: &Observed) -> Option<Broken> {
        if machine.journal.is_some() || machine.data.as_ref().is_some_and(|tree| !tree.is_ok()) {
            return Some(Broken::AllowedOnHalfData);
        }
        let mut seen = self.observe(machine, machine.now?, Listing::Unknown);
        seen.host = before.host.clone();
        let again = self.plan(&seen);
        let changes =
            again.steps.iter().any(|planned| matches!(planned.step, Step::Operate(_) | Step::Migrate { .. }));
        (changes || again.outcome != Outcome::Allow).then_some(Broken::NotIdempotent)
    }

    /// What `run` does, as far as the disk is concerned: it checks, records the boot, stamps the data, and the
    /// workload changes it.
    fn run(&self, machine: &Machine, now: Now, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        if now.runs >= self.bounds.runs_per_boot {
            return;
        }
        let Ok(seq) = may_start(&machine.observe(&self.cast, now, Listing::Unknown)) else {
            return;
        };
        let program = &self.cast.versions[now.deployment];
        let mut after = machine.clone();
        let mut fault = |at, after: &Machine| {
            if faults > 0 {
                emit(Event::Run(End::PowerLostBefore(at, "run")), off(one_more_fault(after.clone())));
                emit(Event::Run(End::KilledBefore(at, "run")), one_more_fault(after.clone()));
            }
        };
        after.boots.started(seq);
        if let Some(mistake) = self.mistake {
            mistake.starts(&mut after, &self.cast);
        }
        fault(1, &after);
        let content = Content { writer: seq, run: now.runs + 1, migrated: false };
        let record = DataRecord {
            version: program.clone(),
            owner: Owner { deployment: self.cast.deployments[now.deployment].clone(), seq: Some(seq) },
            state: DataState::Ok,
        };
        let fresh = Tree { record: None, intact: true, content };
        let data = after.data.get_or_insert(fresh);
        data.record = Some(record);
        let is_whole = data.intact;
        fault(2, &after);
        if let Some(data) = &mut after.data {
            data.content = content;
        }
        if !is_whole {
            after.broken = Some(Broken::RanOnHalfData);
        }
        // The boot was vouched for already: what it leaves at its end is what is owed.
        let is_owed = machine.promise.is_some_and(|owed| owed.seq == seq);
        if is_owed || machine.boots.get(seq).is_some_and(|boot| boot.vouched) {
            after.promise = Some(Owed { seq, content });
        }
        after.now = Some(Now { runs: now.runs + 1, ..now });
        emit(Event::Run(End::Done), after);
    }

    /// What the health checks say, as often as they like. Healthy is followed by retention at once.
    fn verdicts(&self, machine: &Machine, seq: Seq, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        let mut entered = machine.clone();
        entered.enter(&self.cast, seq);
        let machine = &entered;
        let (Some(now), Some(boot)) = (machine.now, machine.boots.get(seq)) else { return };
        let judged = |health: Health| {
            // "Healthy" is no mishap once the workload was started; a boot that was blocked has had its own.
            let is_expected = boot.pre_run == PreRun::Failed || (boot.ran && health == Health::Healthy);
            let after =
                if is_expected { Some(machine.clone()) } else { self.one_more_bad_boot(machine, now) };
            after.map(|mut after| {
                after.boots.judge_system(seq, health);
                owe(&mut after, seq);
                after
            })
        };
        if let Some(healthy) = judged(Health::Healthy) {
            let faults = faults.min(self.bounds.mishaps - healthy.mishaps);
            self.prune(&healthy, retention::tidy, faults, &mut |listing, end, after| {
                emit(Event::Healthy { listing, prune: end }, after);
            });
        }
        if let Some(after) = judged(Health::Unhealthy) {
            emit(Event::Unhealthy, after);
        }
    }

    /// The same device, with this boot among those that went badly; none where that would be one mishap too many.
    fn one_more_bad_boot(&self, machine: &Machine, now: Now) -> Option<Machine> {
        let mishaps = machine.mishaps + u8::from(!now.bad);
        let now = Some(Now { bad: true, ..now });
        (mishaps <= self.bounds.mishaps).then(|| Machine { now, mishaps, ..machine.clone() })
    }

    fn prune(
        &self,
        machine: &Machine,
        rule: fn(&Observed) -> Vec<PlannedStep>,
        faults: u8,
        emit: &mut dyn FnMut(Listing, End, Machine),
    ) {
        let Some(now) = machine.now else { return };
        let mut known: Vec<Vec<PlannedStep>> = vec![];
        for listing in self.listings(machine, now) {
            let seen = self.observe(machine, now, listing);
            let mut steps = rule(&seen);
            if let Some(mistake) = self.mistake {
                mistake.prunes(&seen, &mut steps);
            }
            if known.contains(&steps) {
                continue;
            }
            let job = Job { effects: &self.effects_of(&steps), verdict: None, drops_the_displaced: false };
            self.carry_out(machine, &job, faults, &mut |end, after| emit(listing, end, after));
            known.push(steps);
        }
    }

    fn administrator(&self, machine: &Machine, now: Now, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        for (at, deployment) in self.cast.deployments.iter().enumerate().take(DEPLOYMENTS) {
            if let Some(seq) = machine.boots.last_run_of(deployment).map(|boot| boot.seq)
                && has_data_of(machine, seq)
            {
                let mut after = machine.clone();
                after.boots.judge_system(seq, Health::Healthy);
                owe(&mut after, seq);
                emit(Event::MarkAsHealthy(at), after);
            }
        }
        self.prune(machine, retention::prune, faults, &mut |listing, end, after| {
            emit(Event::Prune { listing, end }, after);
        });
        self.restore_now(machine, now, faults, emit);
        let deployments = (0..DEPLOYMENTS).map(|at| Wanted::Deployment(self.cast.deployments[at].clone()));
        for wanted in deployments.chain([Wanted::Booted]) {
            let request = RestoreRequest { wanted: wanted.clone(), at: String::new() };
            let after = Machine { request: Some(request), ..machine.clone() };
            emit(Event::RestoreOnNextBoot(wanted), after);
        }
        if machine.request.is_some() {
            let after = Machine { request: None, ..machine.clone() };
            emit(Event::CancelRestore, after);
        }
        // By hand, an administrator may do as they like with data that guard owes nobody.
        let owed_elsewhere = machine.promise.is_none_or(|owed| is_listed_as_a_copy(machine, owed));
        if machine.data.is_some() && machine.journal.is_none() && owed_elsewhere {
            emit(Event::RemoveDataByHand, Machine { data: None, ..machine.clone() });
            for copy in machine.records.iter().filter(|copy| copy.kind == CopyKind::Backup) {
                let after = Machine { data: machine.tree(&copy.place).cloned(), ..machine.clone() };
                emit(Event::CopyBackupByHand(copy.number), after);
            }
        }
    }

    fn restore_now(&self, machine: &Machine, now: Now, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        let mut known: Vec<Plan> = vec![];
        let seen = self.observe(machine, now, Listing::All);
        let numbers = seen.copies.iter().map(|copy| Wanted::Number(copy.number));
        for wanted in numbers.chain([Wanted::Booted]) {
            let Ok(mut plan) = plan_restore(&seen, &wanted) else {
                continue;
            };
            if let Some(mistake) = self.mistake {
                mistake.plans(&seen, &mut plan.steps);
            }
            if known.contains(&plan) {
                continue;
            }
            self.prepare(machine, &seen, &plan, faults, &mut |end, after| {
                emit(Event::RestoreNow { wanted: wanted.clone(), end }, after);
            });
            known.push(plan);
        }
    }
}

fn is_silent(plan: &Plan) -> bool {
    let is_mute = |block: &Block| block.why.is_empty() || block.way_out.is_empty();
    plan.reason.is_empty() || matches!(&plan.outcome, Outcome::Block(block) if is_mute(block))
}

/// The data that this boot left, as far as `mark-deploy-as-healthy` can tell.
fn has_data_of(machine: &Machine, seq: Seq) -> bool {
    let in_place = machine.data.as_ref().and_then(|tree| tree.record.as_ref());
    in_place.is_some_and(|record| record.state == DataState::Ok && record.owner.seq == Some(seq))
        || machine
            .records
            .iter()
            .any(|copy| copy.owner.seq == Some(seq) && !copy.tainted && machine.tree(&copy.place).is_some())
}

/// A boot was found healthy: from now on, the newest that it left is owed, unless a later boot was vouched for.
fn owe(machine: &mut Machine, seq: Seq) {
    let is_vouched = machine.boots.get(seq).is_some_and(|boot| boot.vouched);
    let is_later = machine.promise.is_none_or(|owed| owed.seq <= seq);
    if !is_vouched || !is_later {
        return;
    }
    let is_of_it = |tree: &&Tree| {
        tree.intact
            && tree
                .record
                .as_ref()
                .is_some_and(|record| record.state == DataState::Ok && record.owner.seq == Some(seq))
    };
    let newest = machine.data.as_ref().filter(is_of_it).or_else(|| {
        let given_up = |copy: &&CopyRecord| match &machine.journal {
            Some(Operation::Discard { number, .. }) => *number == copy.number,
            _ => false,
        };
        let copies = machine.records.iter().filter(|copy| !given_up(copy));
        let copies = copies.filter_map(|copy| machine.tree(&copy.place));
        copies.filter(is_of_it).max_by_key(|tree| (tree.content.writer, tree.content.run))
    });
    machine.promise = newest.map(|tree| Owed { seq, content: tree.content }).or(machine.promise);
}
