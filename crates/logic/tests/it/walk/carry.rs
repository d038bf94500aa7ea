//! Carrying out a list of effects, and every way in which that can be cut short.

use logic::guard::{Effect, Operation, PlannedStep, Seq, Step, effects};

use super::events::{End, name_of};
use super::machine::{Broken, Content, Extent, Machine, Now, is_across_file_systems};
use super::world::Walk;

/// What the executor carries out in one go.
pub struct Job<'a> {
    pub effects: &'a [Effect],
    /// For a pre-run: this boot's number and whether the workload may start after it.
    pub verdict: Option<(Seq, bool)>,
    /// What retention drops of what this very job moves aside.
    pub drops_the_displaced: bool,
}

impl Walk {
    /// Every way in which a list of effects can end.
    pub fn carry_out(&self, machine: &Machine, job: &Job, faults: u8, emit: &mut dyn FnMut(End, Machine)) {
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
}

pub fn off(machine: Machine) -> Machine {
    Machine { now: None, ..machine }
}

pub fn one_more_fault(machine: Machine) -> Machine {
    let now = machine.now.map(|now| Now { faults: now.faults + 1, ..now });
    Machine { now, mishaps: machine.mishaps + 1, ..machine }
}

pub fn mark_broken(machine: Machine, broken: Broken) -> Machine {
    Machine { broken: Some(broken), ..machine }
}

fn exists(machine: &Machine, content: Content) -> bool {
    let trees = machine.trees.iter().map(|(_, tree)| tree);
    trees.chain(&machine.data).any(|tree| tree.intact && tree.content == content)
}

/// Retention may drop what was moved aside a moment ago, where everything older is protected.
pub fn drops_what_it_displaces(steps: &[PlannedStep], machine: &Machine) -> bool {
    steps.iter().any(|planned| {
        matches!(&planned.step, Step::Operate(Operation::Discard { number, .. })
            if machine.records.get(*number).is_none())
    })
}
