//! A plan being written: what is known, what the steps so far will have made of it, and the steps.
//!
//! Decisions look at the draft, never at the raw observation, so that each sees the state its predecessors leave.

use super::boots::{Boot, Boots, Health, PreRun, Seq};
use super::copies::{Copies, CopyKind, CopyRecord, Place};
use super::data::{Data, DataRecord, DataState, Owner, Recorded};
use super::effects::{Operation, Relocation};
use super::observed::{Observed, RestoreRequest};
use super::retention::{Inventory, discard};
use super::steps::{Branch, Outcome, Plan, PlannedStep, Step};
use crate::host::DeploymentId;
use crate::version::Version;

pub(super) struct Draft<'a> {
    pub seen: &'a Observed,
    pub seq: Seq,
    pub boots: Boots,
    pub copies: Copies,
    pub data: Data,
    branch: Branch,
    reason: String,
    steps: Vec<PlannedStep>,
    next: Seq,
    /// What is still asked for: a request that a step of this plan carries out protects nothing any more.
    pub request: Option<&'a RestoreRequest>,
    /// The copy that is about to be restored: nothing may use it up before.
    pub spared: Option<Seq>,
    /// The copy that a step of this plan makes of the data in place, or puts there.
    kept_now: Option<(DataRecord, Seq)>,
}

impl<'a> Draft<'a> {
    /// A plan for the boot under way, which may repeat what was done in it before.
    pub fn new(seen: &'a Observed) -> Self {
        Self::begin(seen, |boot| {
            let is_its_own =
                |record: &DataRecord| record.owner.seq == Some(boot.seq) && record.state == DataState::Ok;
            boot.pre_run == PreRun::Ready && seen.data.record().is_some_and(is_its_own)
        })
    }

    /// A plan that is going to replace the data, whatever this boot has made of it.
    pub fn replacing(seen: &'a Observed) -> Self {
        Self::begin(seen, |_| false)
    }

    /// A number stands for one state of the data, so that a verdict on one never counts for another: once there is
    /// data under the number of this boot, anything but a repetition gets a number of its own, as after a reboot.
    fn begin(seen: &'a Observed, repeats: impl Fn(&Boot) -> bool) -> Self {
        let mut boots = seen.boots.clone();
        let free = seen.next_number();
        let owners = seen.copies.iter().map(|copy| &copy.owner);
        let mut owners = owners.chain(seen.data.record().map(|record| &record.owner));
        let mut is_unused = |boot: &Boot| !boot.ran && !owners.any(|owner| owner.seq == Some(boot.seq));
        let known = boots.find(&seen.boot, &seen.host.booted);
        let wanted = known.filter(|boot| is_unused(boot) || repeats(boot)).map_or(free, |boot| boot.seq);
        let seq = boots.enter(wanted, &seen.boot, &seen.host.booted, "");
        Self {
            seen,
            seq,
            boots,
            copies: seen.copies.clone(),
            data: seen.data.clone(),
            branch: Branch::EveryBoot,
            reason: String::new(),
            steps: Vec::new(),
            next: free.max(seq + 1),
            request: seen.request.as_ref(),
            spared: None,
            kept_now: None,
        }
    }

    pub fn booted(&self) -> &'a DeploymentId {
        &self.seen.host.booted
    }

    pub fn is_prepared(&self) -> bool {
        self.boots.get(self.seq).is_some_and(|boot| boot.pre_run == PreRun::Ready)
    }

    /// The boot before this one, whatever became of it.
    pub fn previous(&self) -> Option<&Boot> {
        self.boots.before(self.seq)
    }

    pub fn push(&mut self, step: Step, branch: Branch, reason: impl Into<String>) {
        self.steps.push(PlannedStep { step, branch, reason: reason.into() });
    }

    /// The branch of the tree that decides about the data, with its reason.
    pub fn decide(&mut self, branch: Branch, reason: impl Into<String>) {
        self.branch = branch;
        self.reason = reason.into();
    }

    fn number(&mut self) -> Seq {
        let number = self.next;
        self.next += 1;
        number
    }

    /// Finish or undo what was interrupted, and see what that leaves.
    pub fn recover(&mut self) {
        let seen = self.seen;
        if let Some(unfinished) = &seen.unfinished {
            let finish = unfinished.decided || matches!(unfinished.operation, Operation::Discard { .. });
            let reason = match finish {
                true => "it was interrupted after its point of no return: finish it",
                false => "it was interrupted before it had changed anything: undo it",
            };
            let operation = unfinished.operation.clone();
            self.foresee_recovery(&operation, finish);
            self.push(Step::Recover { operation, finish }, Branch::Interrupted, reason);
        }
        if !seen.leftovers.is_empty() {
            let step = Step::Sweep { places: seen.leftovers.clone() };
            self.push(step, Branch::Interrupted, "half-built copies that nothing claims");
        }
    }

    fn foresee_recovery(&mut self, operation: &Operation, finish: bool) {
        match (operation, finish) {
            (Operation::Backup { make_room, .. }, true) => self.relabel(make_room),
            (Operation::Backup { recycle: Some(old), .. }, false) => self.copies.forget(old.number),
            (Operation::MoveAside { .. }, true) => self.data = Data::Absent,
            (Operation::MoveAside { copy }, false) => self.copies.forget(copy.number),
            (Operation::Restore { displaced: Some(copy), .. }, false) => self.copies.forget(copy.number),
            (Operation::Discard { number, .. }, _) => self.copies.forget(*number),
            _ => {}
        }
    }

    fn relabel(&mut self, moves: &[Relocation]) {
        for Relocation { number, to, .. } in moves {
            if let Some(copy) = self.copies.get_mut(*number) {
                copy.place = to.clone();
            }
        }
    }

    /// The verdict on the boot that ran on this data last; nothing where nobody ever judged it.
    pub fn verdict_on(&self, owner: &Owner) -> Option<Health> {
        let Some(seq) = owner.seq else {
            let of = &owner.deployment;
            return self.boots.last_run_of(of).or(self.boots.last_of(of)).map(|boot| boot.system);
        };
        if let Some(boot) = self.boots.get(seq) {
            return Some(boot.system);
        }
        self.copies.iter().any(|copy| copy.owner == *owner && copy.healthy).then_some(Health::Healthy)
    }

    /// Was the owner's boot healthy at some moment while the workload ran, whatever was said of it later?
    pub fn is_vouched(&self, owner: &Owner) -> bool {
        owner.seq.and_then(|seq| self.boots.get(seq)).is_some_and(|boot| boot.vouched)
    }

    /// Does a copy of this data count as healthy? A boot that was found healthy without having started the workload
    /// says nothing about data; where guard did not watch, the verdict or its absence has to do.
    fn is_good(&self, owner: &Owner) -> bool {
        match owner.seq.and_then(|seq| self.boots.get(seq)) {
            Some(boot) => boot.vouched,
            None => matches!(self.verdict_on(owner), None | Some(Health::Healthy)),
        }
    }

    /// A backup that holds exactly the data now in place.
    pub fn kept_copy_of(&self, record: &DataRecord) -> Option<Seq> {
        if let Some((_, number)) = self.kept_now.as_ref().filter(|(kept, _)| kept == record) {
            return Some(*number);
        }
        self.copies.kept_copy_of(record, &self.boots)
    }

    /// The data in place ends up kept as a backup; returns its number.
    pub fn back_up(&mut self, record: &DataRecord, branch: Branch, reason: &str) -> Seq {
        if let Some(number) = self.kept_copy_of(record) {
            return number;
        }
        let of = &record.owner.deployment;
        let mut make_room = Vec::new();
        if let Some(current) = self.copies.at(&Place::Current(of.clone())) {
            let to = Place::Generation(of.clone(), current.number);
            make_room.push(Relocation { number: current.number, from: current.place.clone(), to });
        }
        self.publish(record, make_room, branch, reason)
    }

    /// As the tree has it in its one case: the healthy backup is set apart, and the data as it is becomes the backup.
    pub fn set_last_healthy_apart(&mut self, record: &DataRecord, branch: Branch, reason: &str) {
        if self.kept_copy_of(record).is_some() {
            return;
        }
        let of = &record.owner.deployment;
        let current = self.copies.at(&Place::Current(of.clone()));
        let Some(healthy) = current.filter(|copy| copy.is_vouched(&self.boots)) else {
            self.back_up(record, branch, reason);
            return;
        };
        let last_healthy = Place::LastHealthy(of.clone());
        let earlier = self.copies.at(&last_healthy).map(|copy| Relocation {
            number: copy.number,
            from: last_healthy.clone(),
            to: Place::Generation(of.clone(), copy.number),
        });
        let apart =
            Relocation { number: healthy.number, from: healthy.place.clone(), to: last_healthy.clone() };
        let make_room = earlier.into_iter().chain([apart]).collect();
        self.publish(record, make_room, branch, reason);
    }

    fn publish(
        &mut self,
        record: &DataRecord,
        make_room: Vec<Relocation>,
        branch: Branch,
        reason: &str,
    ) -> Seq {
        let healthy = self.is_good(&record.owner);
        let recycle = self.inventory().recyclable().cloned();
        let number = self.number();
        let copy = CopyRecord {
            number,
            kind: CopyKind::Backup,
            place: Place::Current(record.owner.deployment.clone()),
            owner: record.owner.clone(),
            version: Some(record.version.clone()),
            made_in: self.seq,
            healthy,
            tainted: false,
            same_as: None,
            bytes: 0,
        };
        if let Some(old) = &recycle {
            self.copies.forget(old.number);
        }
        self.relabel(&make_room);
        self.copies.add(copy.clone());
        self.push(Step::Operate(Operation::Backup { copy, make_room, recycle }), branch, reason);
        self.kept_now = Some((record.clone(), number));
        number
    }

    /// The record of the data now in place as a copy under a name of its own.
    fn aside(&mut self) -> Option<CopyRecord> {
        if self.data == Data::Absent {
            return None;
        }
        let number = self.number();
        let record = self.data.record().cloned();
        let same_as = record.as_ref().filter(|r| r.state == DataState::Ok).and_then(|r| self.kept_copy_of(r));
        let tainted = record.as_ref().is_some_and(|record| record.state != DataState::Ok);
        let (owner, version) = match record {
            Some(record) => (record.owner, Some(record.version)),
            None => (Owner { deployment: self.booted().clone(), seq: None }, None),
        };
        let prefix = if same_as.is_some() { "replaced" } else { "unhealthy" };
        let healthy = same_as.and_then(|n| self.copies.get(n)).is_some_and(|copy| copy.healthy);
        Some(CopyRecord {
            number,
            kind: CopyKind::Aside,
            place: Place::Aside(self.free_name(&format!("{prefix}__{}", owner.deployment))),
            owner,
            version,
            made_in: self.seq,
            healthy,
            tainted,
            same_as,
            bytes: 0,
        })
    }

    fn free_name(&self, wanted: &str) -> String {
        let is_free = |name: &String| {
            !self.seen.foreign.contains(name) && self.copies.at(&Place::Aside(name.clone())).is_none()
        };
        let numbered = (2u64..).map(|n| format!("{wanted}__{n}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
    }

    pub fn move_aside(&mut self, branch: Branch, reason: &str) {
        let Some(copy) = self.aside() else { return };
        self.copies.add(copy.clone());
        self.data = Data::Absent;
        self.push(Step::Operate(Operation::MoveAside { copy }), branch, reason);
    }

    /// Put a copy in place; returns the record that the data then has.
    pub fn restore(&mut self, source: &CopyRecord, branch: Branch, reason: &str) {
        let displaced = self.aside();
        if let Some(copy) = &displaced {
            self.copies.add(copy.clone());
        }
        self.data = Data::Present(match &source.version {
            Some(version) => Recorded::Known(DataRecord {
                version: version.clone(),
                owner: source.owner.clone(),
                state: DataState::Ok,
            }),
            None => Recorded::Missing,
        });
        // What comes out of a backup is kept; what was only moved aside may go with the next that is.
        let is_kept = source.kind == CopyKind::Backup;
        self.kept_now = self.data.record().filter(|_| is_kept).map(|record| (record.clone(), source.number));
        let incoming = self.number();
        // Where it is by now: a backup made earlier in this plan may have taken its name.
        let from = self.copies.get(source.number).unwrap_or(source).place.clone();
        let number = source.number;
        let operation = Operation::Restore { source: number, from, incoming, displaced };
        self.push(Step::Operate(operation), branch, reason);
    }

    pub fn migrate(&mut self, from: &Version, to: &Version, base: Seq, reason: &str) {
        let deployment = self.booted().clone();
        let step = Step::Migrate { from: from.clone(), to: to.clone(), base, seq: self.seq, deployment };
        self.push(step, Branch::VersionCheck, reason);
    }

    pub fn inventory(&self) -> Inventory<'_> {
        Inventory {
            boots: &self.boots,
            copies: &self.copies,
            data: &self.data,
            request: self.request,
            policy: &self.seen.policy,
            listed: self.seen.listed(),
            spared: self.spared,
        }
    }

    /// A device that is never healthy moves data aside at every boot: the caps hold there too.
    pub fn cap_asides(&mut self) {
        let asides = self.inventory().droppable_asides();
        let steps: Vec<_> = asides
            .into_iter()
            .map(|copy| discard(copy, "more data was moved aside than the limits allow".to_owned()))
            .collect();
        self.steps.extend(steps);
    }

    pub fn finish(mut self, outcome: Outcome) -> Plan {
        let prepared = self.is_prepared() && self.steps.is_empty();
        if !prepared && self.branch != Branch::DamagedRecord {
            let step = PlannedStep {
                step: Step::RecordBoot { seq: self.seq },
                branch: Branch::EveryBoot,
                reason: "every boot is recorded before anything else happens".to_owned(),
            };
            self.steps.insert(0, step);
        }
        Plan { seq: self.seq, branch: self.branch, reason: self.reason, steps: self.steps, outcome }
    }
}
