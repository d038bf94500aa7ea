//! Everything that can happen to the device, one event at a time.
//!
//! What takes several effects (pre-run, run, prune, restore) is one event per way it can end: done, or stopped by a
//! fault before or inside any one of its effects. After an effect is before the next. So every disk in between is a
//! state of its own, and what comes after it is walked as well.

use logic::guard::{
    CopyKind, CopyRecord, DataRecord, DataState, Effect, Health, Observed, Operation, Outcome, Owner, Plan,
    PlannedStep, PreRun, RestoreRequest, Seq, Step, Wanted, effects, may_start, plan, plan_restore,
    retention,
};
use testkit::explore::World;

use super::cast::{Cast, DEPLOYMENTS, Listing};
use super::events::{End, Event, name_of};
use super::invariants::{check, is_kept_as_a_copy};
use super::machine::{Broken, Content, Extent, Machine, Now, Owed, Tree, is_across_file_systems};
use super::mistakes::Mistake;
use super::pack::{State, pack, unpack};

/// How far a walk goes. Within these bounds it leaves nothing out.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub boots: u8,
    pub faults_per_boot: u8,
    /// Faults over the whole life of the device.
    pub faults_in_all: u8,
    /// Boots over the whole life in which the workload ran and was found unhealthy, or was not judged.
    pub bad_boots: u8,
    pub runs_per_boot: u8,
    /// Whether an administrator does anything, at which boots at the earliest.
    pub admin: bool,
    pub soft_reboots: bool,
    /// A device that had data before guard came is walked as well.
    pub data_from_before: bool,
}

pub struct Walk {
    pub cast: Cast,
    pub bounds: Bounds,
    pub mistake: Option<Mistake>,
}

type Emit<'a> = &'a mut dyn FnMut(Event, State);

/// What the executor carries out in one go.
struct Job<'a> {
    effects: &'a [Effect],
    /// For a pre-run: this boot's number and whether the workload may start after it.
    verdict: Option<(Seq, bool)>,
    /// What retention drops of what this very job moves aside.
    drops_the_displaced: bool,
}

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
            None if machine.booted == self.bounds.boots => self.quiet_boots(&machine, step),
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
        check(&unpack(state, &self.cast), &self.cast, self.mistake)
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
    fn emit(&self, step: Emit, event: Event, machine: Machine) {
        step(event, pack(machine, &self.cast));
    }

    fn boot(&self, machine: &Machine, deployment: usize) -> Machine {
        let now = Now { deployment, faults: 0, runs: 0, bad: false };
        Machine { now: Some(now), booted: machine.booted.saturating_add(1), ..machine.clone() }
    }

    /// At the edge of the walk: whatever the device has been through, one boot without faults must still end well.
    fn quiet_boots(&self, machine: &Machine, step: Emit) {
        for deployment in 0..DEPLOYMENTS {
            let before = self.boot(machine, deployment);
            self.pre_run(&before, 0, &mut |event, after| {
                let is_fine = check(&after, &self.cast, self.mistake).is_ok();
                self.emit(step, event, if is_fine { rested() } else { after });
            });
        }
    }

    fn within_a_boot(&self, machine: &Machine, now: Now, step: Emit) {
        let in_all = self.bounds.faults_in_all.saturating_sub(machine.faults);
        let faults = in_all.min(self.bounds.faults_per_boot - now.faults);
        let mut emit = |event, after| self.emit(step, event, after);
        let boot = machine.seq(&self.cast).and_then(|seq| machine.boots.get(seq));
        let is_over =
            boot.is_some_and(|boot| boot.system != Health::Unknown || boot.pre_run == PreRun::Failed);
        let at_its_end = if is_over { Some(machine.clone()) } else { self.one_more_bad_boot(machine, now) };
        if let Some(at_its_end) = at_its_end {
            emit(Event::Reboot, off(at_its_end));
        }
        self.pre_run(machine, faults, &mut emit);
        self.run(machine, now, faults, &mut emit);
        self.verdicts(machine, now, faults, &mut emit);
        if self.bounds.soft_reboots && machine.booted < self.bounds.boots {
            for deployment in (0..DEPLOYMENTS).filter(|other| *other != now.deployment) {
                emit(Event::SoftReboot(deployment), self.boot(machine, deployment));
            }
        }
        if self.bounds.admin {
            self.administrator(machine, now, faults, &mut emit);
        }
    }

    fn listings(&self, machine: &Machine, now: Now) -> Vec<Listing> {
        let booted = &self.cast.deployments[now.deployment];
        let previous = machine.boots.iter().rev().find(|boot| boot.deployment != *booted);
        let previous = previous.map(|boot| self.cast.index_of(&boot.deployment));
        [Listing::All, Listing::Unknown].into_iter().chain(previous.map(Listing::BootedAnd)).collect()
    }

    fn observe(&self, machine: &Machine, now: Now, listing: Listing) -> Observed {
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

    fn pre_run(&self, machine: &Machine, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        let Some(now) = machine.now else { return };
        let mut known: Vec<Plan> = vec![];
        for listing in self.listings(machine, now) {
            let seen = self.observe(machine, now, listing);
            let plan = self.plan(&seen);
            if known.contains(&plan) {
                continue;
            }
            let event = |end| Event::PreRun { listing, branch: plan.branch, end };
            let twice = known.is_empty() && self.mistake.is_none();
            if let Some(broken) = misplanned(&plan, &seen, twice) {
                emit(event(End::Done), mark_broken(machine.clone(), broken));
            }
            let ready = plan.outcome == Outcome::Allow;
            let job = Job {
                effects: &self.effects_of(&plan.steps),
                verdict: Some((plan.seq, ready)),
                drops_the_displaced: drops_what_it_displaces(&plan.steps, machine),
            };
            self.carry_out(machine, &job, faults, &mut |end, mut after| {
                if end == End::Done && ready && after.broken.is_none() {
                    after.broken = self.not_ready(&after, now, listing);
                }
                emit(event(end), after);
            });
            known.push(plan);
        }
    }

    /// After a pre-run that allows the workload, the data is whole, and another pre-run would leave it alone.
    fn not_ready(&self, machine: &Machine, now: Now, listing: Listing) -> Option<Broken> {
        if machine.journal.is_some() || machine.data.as_ref().is_some_and(|tree| !tree.is_ok()) {
            return Some(Broken::AllowedOnHalfData);
        }
        let again = self.plan(&self.observe(machine, now, listing));
        let changes =
            again.steps.iter().any(|planned| matches!(planned.step, Step::Operate(_) | Step::Migrate { .. }));
        (changes || again.outcome != Outcome::Allow).then_some(Broken::NotIdempotent)
    }

    /// Every way in which a list of effects can end.
    fn carry_out(&self, machine: &Machine, job: &Job, faults: u8, emit: &mut dyn FnMut(End, Machine)) {
        let mut disk = machine.clone();
        let kept = machine.data.as_ref().filter(|tree| tree.intact).map(|tree| tree.content);
        let mut emit = |end, mut after: Machine| {
            if let Some(content) = kept
                && !job.drops_the_displaced
                && !exists(&after, content)
            {
                after.broken = Some(Broken::LostByADecision);
            }
            emit(end, after);
        };
        for (at, effect) in job.effects.iter().enumerate() {
            let name = name_of(effect);
            let at = at as u8;
            if faults > 0 {
                self.stopped(&disk, job, at > 0, (at, name, Extent::Whole), &mut emit);
            }
            let has_an_inside = is_across_file_systems(effect)
                || matches!(
                    effect,
                    Effect::Build { .. } | Effect::RunMigration { .. } | Effect::Remove { .. }
                );
            if faults > 0 && has_an_inside {
                let mut half = disk.clone();
                half.apply(&self.cast, effect, Extent::Half);
                self.stopped(&half, job, true, (at, name, Extent::Half), &mut emit);
            }
            if !disk.apply(&self.cast, effect, Extent::Whole) {
                emit(End::Failed(at, name), mark_broken(disk, Broken::CannotBeDone));
                return;
            }
        }
        if let Some((seq, ready)) = job.verdict {
            disk.apply(&self.cast, &Effect::FinishPreRun { seq, ready }, Extent::Whole);
        }
        emit(End::Done, disk);
    }

    /// A fault before an effect, or inside it.
    fn stopped(
        &self,
        disk: &Machine,
        job: &Job,
        changed: bool,
        (at, name, extent): (u8, &'static str, Extent),
        emit: &mut dyn FnMut(End, Machine),
    ) {
        let (power, killed, failed, undone) = match extent {
            Extent::Whole => (
                End::PowerLostBefore(at, name),
                End::KilledBefore(at, name),
                End::Failed(at, name),
                End::FailedAndUndone(at, name),
            ),
            Extent::Half => (
                End::PowerLostInside(at, name),
                End::KilledInside(at, name),
                End::FailedInside(at, name),
                End::FailedInsideAndUndone(at, name),
            ),
        };
        if changed {
            emit(power, off(one_more_fault(disk.clone())));
            emit(killed, one_more_fault(disk.clone()));
        }
        // The effect fails: the executor stops there, and says so on record.
        let mut after = one_more_fault(disk.clone());
        if name == "RunMigration" {
            after.stamp_failed();
        }
        let give_up = |mut after: Machine| {
            if let Some((seq, _)) = job.verdict {
                after.apply(&self.cast, &Effect::FinishPreRun { seq, ready: false }, Extent::Whole);
            }
            after
        };
        // It may clean up at once, or leave that to the next start.
        if let Some(operation) = after.journal.clone() {
            let finish = after.is_decided(&operation);
            let recover = Step::Recover { operation, finish };
            let list = self.mistake.map_or_else(|| effects(&recover), |mistake| mistake.effects(&recover));
            let mut clean = after.clone();
            let all_done = list.iter().all(|effect| clean.apply(&self.cast, effect, Extent::Whole));
            if !all_done {
                clean = mark_broken(clean, Broken::CannotBeDone);
            }
            emit(undone, give_up(clean));
        }
        emit(failed, give_up(after));
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
        if after.boots.get(seq).is_some_and(|boot| boot.vouched) {
            after.promise = Some(Owed { seq, content });
        }
        after.now = Some(Now { runs: now.runs + 1, ..now });
        emit(Event::Run(End::Done), after);
    }

    /// What the health checks say, as often as they like. Healthy is followed by retention at once.
    fn verdicts(&self, machine: &Machine, now: Now, faults: u8, emit: &mut dyn FnMut(Event, Machine)) {
        let seq = plan(&machine.observe(&self.cast, now, Listing::Unknown)).seq;
        let mut entered = machine.clone();
        entered.boots.enter(seq, &self.cast.now, &self.cast.deployments[now.deployment], "");
        let machine = &entered;
        let Some(boot) = machine.boots.get(seq) else { return };
        let mut healthy = machine.clone();
        healthy.boots.judge_system(boot.seq, Health::Healthy);
        owe(&mut healthy, boot.seq);
        self.prune(&healthy, now, faults, &mut |listing, end, after| {
            emit(Event::Healthy { listing, prune: end }, after);
        });
        if boot.ran
            && let Some(mut after) = self.one_more_bad_boot(machine, now)
        {
            after.boots.judge_system(boot.seq, Health::Unhealthy);
            emit(Event::Unhealthy, after);
        } else if !boot.ran {
            let mut after = machine.clone();
            after.boots.judge_system(boot.seq, Health::Unhealthy);
            emit(Event::Unhealthy, after);
        }
    }

    /// The same device, with this boot among those that went badly; none where that would be one too many.
    fn one_more_bad_boot(&self, machine: &Machine, now: Now) -> Option<Machine> {
        let bad_boots = machine.bad_boots + u8::from(!now.bad);
        let now = Some(Now { bad: true, ..now });
        (bad_boots <= self.bounds.bad_boots).then(|| Machine { now, bad_boots, ..machine.clone() })
    }

    fn prune(&self, machine: &Machine, now: Now, faults: u8, emit: &mut dyn FnMut(Listing, End, Machine)) {
        let mut known: Vec<Vec<PlannedStep>> = vec![];
        for listing in self.listings(machine, now) {
            let seen = self.observe(machine, now, listing);
            let mut steps = retention::prune(&seen);
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
        self.prune(machine, now, faults, &mut |listing, end, after| {
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
        let owed_elsewhere = machine.promise.is_none_or(|owed| is_kept_as_a_copy(machine, owed.content));
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
            let job = Job {
                effects: &self.effects_of(&plan.steps),
                verdict: None,
                drops_the_displaced: drops_what_it_displaces(&plan.steps, machine),
            };
            self.carry_out(machine, &job, faults, &mut |end, after| {
                emit(Event::RestoreNow { wanted: wanted.clone(), end }, after);
            });
            known.push(plan);
        }
    }
}

fn misplanned(made: &Plan, seen: &Observed, twice: bool) -> Option<Broken> {
    let is_silent =
        matches!(&made.outcome, Outcome::Block(block) if block.why.is_empty() || block.way_out.is_empty());
    if is_silent || made.reason.is_empty() {
        return Some(Broken::SilentBlock);
    }
    (twice && *made != plan(seen)).then_some(Broken::NotPure)
}

fn off(machine: Machine) -> Machine {
    Machine { now: None, ..machine }
}

fn one_more_fault(machine: Machine) -> Machine {
    let now = machine.now.map(|now| Now { faults: now.faults + 1, ..now });
    Machine { now, faults: machine.faults + 1, ..machine }
}

fn mark_broken(machine: Machine, broken: Broken) -> Machine {
    Machine { broken: Some(broken), ..machine }
}

fn exists(machine: &Machine, content: Content) -> bool {
    let trees = machine.trees.iter().map(|(_, tree)| tree);
    trees.chain(&machine.data).any(|tree| tree.intact && tree.content == content)
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

/// Retention may drop what was moved aside a moment ago, where everything older is protected.
fn drops_what_it_displaces(steps: &[PlannedStep], machine: &Machine) -> bool {
    steps.iter().any(|planned| {
        matches!(&planned.step, Step::Operate(Operation::Discard { number, .. })
            if machine.records.get(*number).is_none())
    })
}
