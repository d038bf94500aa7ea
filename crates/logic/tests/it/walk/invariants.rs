//! What must be true of every state, whatever led to it.

use std::borrow::Cow;

use logic::guard::{CopyRecord, DataState, Place, Step, plan};

use super::cast::{Cast, Listing};
use super::machine::{Broken, Content, Extent, Machine, Now, Owed, Tree};
use super::mistakes::Mistake;
use super::world::Walk;

/// The most copies that there may ever be, with three deployments, two healthy generations and two asides as the
/// policy has it. For each deployment one backup under its own name and one more that is its newest healthy one (a
/// generation, or `last_healthy__`): 6. What was there before guard: 1. The tree that the next backup brings up to
/// date: 1. The two newest healthy ones over all are among these. Moved aside: two, the newest, and one that holds
/// what a healthy boot vouched for: 4.
pub const MOST_COPIES: usize = 12;

impl Walk {
    pub fn check_device(&self, machine: &Machine) -> Result<(), String> {
        if let Some(broken) = machine.broken {
            return Err(format!("{}; there is\n{}", describe(broken), summary(machine)));
        }
        let recovered = recovered(machine, &self.cast, self.mistake);
        if self.only_the_promise {
            return is_promise_kept(machine, recovered.as_deref().unwrap_or(machine));
        }
        let copies = machine.records.iter().count();
        self.most_copies.set(copies.max(self.most_copies.get()));
        if copies > MOST_COPIES || machine.trees.len() > MOST_COPIES + 1 {
            return Err(format!("growth without bound: {copies} copies and {} trees", machine.trees.len()));
        }
        let recovered = recovered?;
        is_tidy(&recovered)?;
        is_promise_kept(machine, &recovered)
    }
}

fn is_promise_kept(machine: &Machine, recovered: &Machine) -> Result<(), String> {
    match machine.promise {
        Some(owed) if !is_kept(recovered, owed.content) => Err(format!(
            "the promise is broken: what boot {} vouched for is nowhere that a command could bring it back from; \
             there is\n{}",
            owed.seq,
            summary(machine)
        )),
        _ => Ok(()),
    }
}

fn describe(broken: Broken) -> &'static str {
    match broken {
        Broken::RanOnHalfData => "the workload ran on half-copied or half-migrated data",
        Broken::NotIdempotent => "a second pre-run of the same boot would change the data again",
        Broken::SilentBlock => "a block without a reason or without a way out",
        Broken::NotPure => "the same observation made two plans",
        Broken::CannotBeDone => "a planned effect found nothing to work on",
        Broken::AllowedOnHalfData => "pre-run allowed the workload although the data is not whole",
        Broken::Misremembered => "packing the state has forgotten something that a decision sees",
        Broken::LostByADecision => {
            "what was in the data directory is nowhere any more, and retention had no part"
        }
    }
}

/// The device after the first thing that any `pre-run` and any restore does.
fn recovered<'a>(
    machine: &'a Machine,
    cast: &Cast,
    mistake: Option<Mistake>,
) -> Result<Cow<'a, Machine>, String> {
    let half_built = |(place, _): &(Place, _)| matches!(place, Place::Staging(_) | Place::Incoming(_));
    if machine.journal.is_none() && !machine.trees.iter().any(half_built) {
        return Ok(Cow::Borrowed(machine));
    }
    let mut after = machine.clone();
    let now = machine.now.unwrap_or(Now { deployment: 0, faults: 0, runs: 0, bad: false });
    let plan = plan(&machine.observe(cast, now, Listing::All));
    let steps = plan.steps.iter().map(|planned| &planned.step);
    for step in steps.filter(|step| matches!(step, Step::Recover { .. } | Step::Sweep { .. })) {
        let list = match mistake {
            Some(mistake) => mistake.effects(step),
            None => logic::guard::effects(step),
        };
        for effect in list {
            if !after.apply(cast, &effect, Extent::Whole) {
                return Err(format!("recovery can't be done: {effect:?} found nothing to work on"));
            }
        }
    }
    Ok(Cow::Owned(after))
}

/// After recovery nothing is half done, every record has its tree, and every tree its record.
fn is_tidy(machine: &Machine) -> Result<(), String> {
    if machine.journal.is_some() {
        return Err("the journal is still open after recovery".to_owned());
    }
    for (place, _) in &machine.trees {
        if machine.records.at(place).is_none() {
            return Err(format!("a tree without a record is left at {place:?} after recovery"));
        }
    }
    for copy in machine.records.iter() {
        match machine.tree(&copy.place) {
            None => return Err(format!("copy {} has no tree after recovery", copy.number)),
            Some(tree) if !tree.intact && !copy.tainted => {
                return Err(format!("copy {} is not whole, and its record does not say so", copy.number));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Is this content whole in the data directory, or in a copy that can be restored?
fn is_kept(machine: &Machine, owed: Content) -> bool {
    let is_it = |tree: &Tree| tree.intact && tree.content == owed;
    let in_data = machine.data.as_ref().is_some_and(|tree| tree.is_ok() && is_it(tree));
    let mut copies = machine.records.iter().filter(|copy| !copy.tainted);
    in_data || copies.any(|copy| machine.tree(&copy.place).is_some_and(is_it))
}

/// Can an administrator tell from the list of copies that what is owed is among them?
pub fn is_listed_as_a_copy(machine: &Machine, owed: Owed) -> bool {
    let mut copies = machine.records.iter().filter(|copy| copy.owner.seq.unwrap_or(0) == owed.seq);
    copies.any(|copy| {
        !copy.tainted
            && machine.tree(&copy.place).is_some_and(|tree| tree.intact && tree.content == owed.content)
    })
}

/// The device in a few lines, for people.
pub fn summary(machine: &Machine) -> String {
    let tree = |tree: &Tree| {
        let owner = tree.record.as_ref().map(|record| {
            let state = if record.state == DataState::Ok { "" } else { ", tainted" };
            format!(
                "{} boot {:?} version {}{state}",
                record.owner.deployment, record.owner.seq, record.version
            )
        });
        let whole = if tree.intact { "whole" } else { "half" };
        let Content { writer, run, migrated } = tree.content;
        format!(
            "{} ({whole}, written by boot {writer} run {run}, migrated {migrated})",
            owner.unwrap_or_default()
        )
    };
    let mut lines = vec![format!("  data: {}", machine.data.as_ref().map_or("none".to_owned(), tree))];
    lines.extend(machine.trees.iter().map(|(place, at)| format!("  tree at {place:?}: {}", tree(at))));
    lines.extend(machine.records.iter().map(|copy| {
        let CopyRecord { number, kind, place, owner, made_in, healthy, tainted, same_as, .. } = copy;
        format!(
            "  copy {number} {kind:?} at {place:?} of {} boot {:?}, made in {made_in}, healthy {healthy}, tainted \
             {tainted}, same as {same_as:?}",
            owner.deployment, owner.seq
        )
    }));
    lines.extend(machine.boots.iter().map(|boot| {
        format!(
            "  boot {} of {}: {:?}, ran {}, {}, vouched {}",
            boot.seq, boot.deployment, boot.pre_run, boot.ran, boot.system, boot.vouched
        )
    }));
    lines.push(format!("  journal: {:?}", machine.journal));
    lines.join("\n")
}
