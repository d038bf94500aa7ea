//! Proof that packing a state forgets nothing that matters: the packed state decides as the one that was packed.

use std::mem::{Discriminant, discriminant};

use logic::guard::{
    Boot, Boots, Branch, Operation, Outcome, PlannedStep, Rule, Step, may_start, plan, plan_restore,
    retention,
};
use logic::host::DeploymentId;

use super::cast::{DEPLOYMENTS, Listing};
use super::machine::Machine;
use super::pack::{pack, unpack};
use super::world::Walk;

/// All that is decided about a device, as far as it does not depend on numbers.
#[derive(PartialEq)]
struct Decided {
    branch: Branch,
    rule: Option<Rule>,
    steps: Vec<StepKind>,
    /// For each copy, in order: what restoring it would take.
    restores: Vec<Vec<StepKind>>,
    pruned: Vec<StepKind>,
    tidied: Vec<StepKind>,
    may_start: bool,
}

/// What a step does, and to whose data.
type StepKind = (Discriminant<Step>, Option<(Discriminant<Operation>, Option<DeploymentId>)>);

impl Walk {
    pub fn is_remembered(&self, machine: &Machine) -> bool {
        let packed = unpack(&pack(machine.clone(), &self.cast), &self.cast);
        let mut whole = machine.clone();
        if whole.now.is_none() {
            // The next boot has another name in the kernel than those before it.
            let over = whole.boots.iter().map(|boot| Boot { boot: self.cast.then.clone(), ..boot.clone() });
            whole.boots = Boots::from_records(over.collect());
        }
        self.decided(&whole) == self.decided(&packed)
    }

    fn decided(&self, machine: &Machine) -> Vec<Decided> {
        let devices = match machine.now {
            Some(_) => vec![machine.clone()],
            None => (0..DEPLOYMENTS).map(|deployment| self.boot(machine, deployment)).collect(),
        };
        let decide = |device: &Machine| {
            let seen = self.observe(device, device.now?, Listing::All);
            let plan = plan(&seen);
            let copies = seen.copies.iter().map(|copy| logic::guard::Wanted::Number(copy.number));
            let restores = copies.filter_map(|wanted| plan_restore(&seen, &wanted).ok());
            Some(Decided {
                branch: plan.branch,
                rule: match &plan.outcome {
                    Outcome::Block(block) => Some(block.rule),
                    Outcome::Allow => None,
                },
                steps: kinds(&plan.steps),
                restores: restores.map(|plan| kinds(&plan.steps)).collect(),
                pruned: kinds(&retention::prune(&seen)),
                tidied: kinds(&retention::tidy(&seen)),
                may_start: may_start(&seen).is_ok(),
            })
        };
        devices.iter().filter_map(decide).collect()
    }
}

fn kinds(steps: &[PlannedStep]) -> Vec<StepKind> {
    steps.iter().map(kind_of).collect()
}

fn kind_of(planned: &PlannedStep) -> StepKind {
    let operation = match &planned.step {
        Step::Operate(operation) | Step::Recover { operation, .. } => Some(operation),
        _ => None,
    };
    let owner = |operation: &Operation| match operation {
        Operation::Backup { copy, .. } | Operation::MoveAside { copy } => Some(copy.owner.deployment.clone()),
        Operation::Restore { displaced, .. } => displaced.as_ref().map(|copy| copy.owner.deployment.clone()),
        Operation::Discard { .. } => None,
    };
    let operation = operation.map(|operation| (discriminant(operation), owner(operation)));
    (discriminant(&planned.step), operation)
}
