//! What may be removed, and what never.
//!
//! Nothing is removed by a decision about data; only what these rules let go, and only whole copies.

use super::boots::{Boots, Seq};
use super::copies::{Copies, CopyKind, CopyRecord, Place};
use super::data::{Data, DataState};
use super::effects::Operation;
use super::observed::{Keep, Observed, Policy, RestoreRequest, Wanted};
use super::steps::{Branch, PlannedStep, Step};
use crate::host::DeploymentId;

/// What retention looks at.
pub struct Inventory<'a> {
    pub boots: &'a Boots,
    pub copies: &'a Copies,
    pub data: &'a Data,
    pub request: Option<&'a RestoreRequest>,
    pub policy: &'a Policy,
    /// Absent where the host did not say: then every deployment counts as listed.
    pub listed: Option<&'a [DeploymentId]>,
    /// A copy that is about to be restored.
    pub spared: Option<Seq>,
}

impl<'a> Inventory<'a> {
    pub fn of(seen: &'a Observed) -> Self {
        Self {
            boots: &seen.boots,
            copies: &seen.copies,
            data: &seen.data,
            request: seen.request.as_ref(),
            policy: &seen.policy,
            listed: seen.listed(),
            spared: None,
        }
    }

    fn keeps_deployment(&self, deployment: &DeploymentId) -> bool {
        self.policy.keep == Keep::All || self.listed.is_none_or(|listed| listed.contains(deployment))
    }

    /// Copies that stay whatever happens, each with no other way to get the same data back.
    fn is_protected(&self, copy: &CopyRecord) -> bool {
        self.is_newest_healthy_of_its_deployment(copy)
            || self.is_among_the_newest_healthy(copy)
            || self.is_newest_of_a_vouched_boot(copy)
            || self.is_base_of_a_migration(copy.number)
            || self.is_requested(copy)
            || self.spared == Some(copy.number)
    }

    fn is_newest_healthy_of_its_deployment(&self, copy: &CopyRecord) -> bool {
        let of = &copy.owner.deployment;
        self.keeps_deployment(of)
            && self
                .copies
                .newest_healthy_of(of, self.boots)
                .is_some_and(|newest| newest.number == copy.number)
    }

    fn is_among_the_newest_healthy(&self, copy: &CopyRecord) -> bool {
        copy.kind == CopyKind::Backup
            && copy.is_vouched(self.boots)
            && self
                .copies
                .vouched(self.boots)
                .filter(|other| other.kind == CopyKind::Backup && other.age() > copy.age())
                .count()
                < self.policy.min_healthy
    }

    /// The newest copy of what the last healthy boot (of all, or of a kept deployment) vouched for.
    fn is_newest_of_a_vouched_boot(&self, copy: &CopyRecord) -> bool {
        let of = &copy.owner.deployment;
        let Some(seq) = copy.owner.seq else { return false };
        let last_of_all = self.boots.last_vouched().is_some_and(|boot| boot.seq == seq);
        let last_of_its_own =
            self.keeps_deployment(of) && self.boots.last_vouched_of(of).is_some_and(|boot| boot.seq == seq);
        (last_of_all || last_of_its_own)
            && !copy.tainted
            && !self
                .copies
                .iter()
                .any(|other| other.owner.seq == copy.owner.seq && !other.tainted && rank(other) > rank(copy))
    }

    fn is_base_of_a_migration(&self, number: Seq) -> bool {
        matches!(
            self.data.record().map(|record| &record.state),
            Some(DataState::Tainted { base: Some(base), .. }) if *base == number
        )
    }

    fn is_requested(&self, copy: &CopyRecord) -> bool {
        match self.request.map(|request| &request.wanted) {
            Some(Wanted::Number(number)) => *number == copy.number,
            Some(Wanted::Deployment(deployment)) => copy.owner.deployment == *deployment,
            Some(Wanted::Booted) => true,
            None => false,
        }
    }

    /// Backups that may go: older generations beyond the protected ones, and all of deployments that are not kept.
    pub fn droppable_backups(&self) -> impl Iterator<Item = &'a CopyRecord> {
        self.copies.iter().filter(|copy| {
            copy.kind == CopyKind::Backup
                && !self.is_protected(copy)
                // The name that an administrator looks for stays while the deployment does.
                && !(matches!(copy.place, Place::Current(_)) && self.keeps_deployment(&copy.owner.deployment))
        })
    }

    /// Data moved aside beyond the caps: first what is kept as a backup as well, then the oldest.
    pub fn droppable_asides(&self) -> Vec<&'a CopyRecord> {
        let mut asides: Vec<_> = self.copies.iter().filter(|copy| copy.kind == CopyKind::Aside).collect();
        let mut count = asides.len();
        let mut bytes = asides.iter().fold(0u64, |sum, copy| sum.saturating_add(copy.bytes));
        // The newest one stays, however full it is: what was moved aside a moment ago is not to be gone the next.
        let newest = asides.iter().map(|copy| copy.number).max();
        asides.sort_by_key(|copy| (copy.same_as.is_none(), copy.number));
        asides.retain(|copy| {
            let over = count > self.policy.aside_max || bytes > self.policy.aside_max_bytes;
            let drop = over && Some(copy.number) != newest && !self.is_protected(copy);
            if drop {
                count -= 1;
                bytes = bytes.saturating_sub(copy.bytes);
            }
            drop
        });
        asides
    }

    /// The most recent generation that may go: the tree that differs least from the data.
    pub fn recyclable(&self) -> Option<&'a CopyRecord> {
        self.droppable_backups()
            .filter(|copy| matches!(copy.place, Place::Generation(..)))
            .max_by_key(|copy| copy.age())
    }
}

/// Of two copies of the same data, backups count more than data moved aside, then the later.
fn rank(copy: &CopyRecord) -> (bool, Seq) {
    (copy.kind == CopyKind::Backup, copy.number)
}

pub(super) fn discard(copy: &CopyRecord, reason: String) -> PlannedStep {
    PlannedStep {
        step: Step::Operate(Operation::Discard { number: copy.number, place: copy.place.clone() }),
        branch: Branch::Retention,
        reason,
    }
}

/// What retention removes after a healthy verdict: all that it may, but for the tree that the next backup brings up to
/// date instead of copying everything again.
pub fn tidy(seen: &Observed) -> Vec<PlannedStep> {
    let spare = Inventory::of(seen).recyclable().map(|copy| copy.number);
    let mut steps = prune(seen);
    steps.retain(|planned| match &planned.step {
        Step::Operate(Operation::Discard { number, .. }) => Some(*number) != spare,
        _ => true,
    });
    steps
}

/// What retention removes when an administrator asks: all that it may.
pub fn prune(seen: &Observed) -> Vec<PlannedStep> {
    let inventory = Inventory::of(seen);
    // With the data gone, every copy may be the one that is wanted back.
    if seen.data == Data::Absent || seen.unfinished.is_some() {
        return vec![];
    }
    let backups = inventory.droppable_backups().map(|copy| {
        let of = &copy.owner.deployment;
        let reason = if inventory.keeps_deployment(of) {
            format!("a newer healthy backup of {of} exists")
        } else {
            format!("the host no longer lists {of}, and enough healthy backups of others exist")
        };
        discard(copy, reason)
    });
    let redundant: Vec<_> = seen
        .copies
        .iter()
        .filter(|copy| copy.kind == CopyKind::Aside && !inventory.is_protected(copy))
        .filter(|copy| copy.same_as.is_some_and(|number| seen.copies.get(number).is_some()))
        .collect();
    let is_redundant = |copy: &CopyRecord| redundant.iter().any(|known| known.number == copy.number);
    let asides = inventory.droppable_asides();
    let over_cap = asides.iter().filter(|copy| !is_redundant(copy));
    backups
        .chain(redundant.iter().map(|copy| discard(copy, "the same data is kept as a backup".to_owned())))
        .chain(
            over_cap.map(|copy| discard(copy, "more data was moved aside than the limits allow".to_owned())),
        )
        .collect()
}
