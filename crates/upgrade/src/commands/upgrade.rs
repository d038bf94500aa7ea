//! Upgrade, one-step rollback, resumption.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use logic::upgrade::{
    Ask, Begin, Begun, Image, Kind, Point, Record, Refusal, SnapshotId, Step, TakeUp, Transaction, Way, Wish,
    may_resume, may_roll_back, may_upgrade, take_up,
};
use migrate::Migrated;

use super::Bring;
use super::overview::{WorkloadNote, workload_notes};
use super::take_up::{First, Observed, first, observe};
use crate::appliance::{Appliance, Held};
use crate::configuration::Configuration;
use crate::error::{Error, Result};
use crate::release::{self, Manifest};
use crate::transaction::{Carrier, End, Options, Witness, remove_tree};
use crate::{kubernetes, migration};

/// What is asked for.
pub struct Request<'a> {
    pub reference: &'a str,
    pub options: Options,
    pub bring: &'a Bring<'a>,
    pub gate: Option<&'a Gate<'a>>,
}

/// What else must hold, of a release that is at hand, before anything is stopped for it.
pub type Gate<'a> = dyn Fn(&Path) -> Result<()> + 'a;

/// How it came out well.
#[derive(Debug)]
pub enum Upgraded {
    /// That release is there already.
    Already(Image),
    Moved {
        from: Image,
        to: Image,
        /// It was switched off: nothing has proved that it becomes ready.
        unproven: bool,
        /// What the new release cannot do any more with workloads of before.
        workloads: Vec<WorkloadNote>,
    },
}

/// What an upgrade would do.
#[derive(Debug)]
pub struct Plan {
    pub from: Image,
    pub to: Image,
    pub steps: Vec<Step>,
    /// None: that release is there already.
    pub migrated: Option<Migrated>,
    /// Kubernetes objects would be stored anew.
    pub kubernetes: bool,
    pub workloads: Vec<WorkloadNote>,
}

fn refused(appliance: &Appliance, refusal: Refusal) -> Error {
    Error::Refused { name: appliance.identity.name.clone(), refusal }
}

fn ended(appliance: &Appliance, end: End, workloads: Vec<WorkloadNote>) -> Result<Upgraded> {
    let unproven = end.is_unproven();
    match end {
        End::Committed(Begin { from, to, .. }) => Ok(Upgraded::Moved { from, to, unproven, workloads }),
        End::Undone { begin, why } => {
            let (name, to) = (appliance.identity.name.clone(), begin.to.version.to_string());
            Err(Error::Undone { name, to, why })
        }
    }
}

pub fn upgrade(held: &mut Held, request: &Request<'_>, witness: &dyn Witness) -> Result<Upgraded> {
    clear_the_way(held, request, witness)?;
    let observed = observe(&held.appliance)?.with_readiness(&held.appliance);
    let Ready { image, workloads, .. } = match prepare(held, &observed, request, witness)? {
        Some(ready) => ready,
        None => return Ok(Upgraded::Already(observed.current)),
    };
    let begin = begin(Kind::Upgrade, &observed, image, request.reference, &request.options.secrets)?;
    let end = Carrier::begin(held, begin, &request.options, witness)?.run()?;
    ended(&held.appliance, end, workloads)
}

/// What [`upgrade`] would do; changes nothing, but for clearing away what an interrupted try has left.
pub fn plan(held: &mut Held, request: &Request<'_>, witness: &dyn Witness) -> Result<Plan> {
    clear_the_way(held, request, witness)?;
    let observed = observe(&held.appliance)?;
    let ready = prepare(held, &observed, request, witness)?;
    let from = observed.current.clone();
    let plan = match ready {
        None => Plan {
            to: from.clone(),
            from,
            steps: vec![],
            migrated: None,
            kubernetes: false,
            workloads: vec![],
        },
        Some(Ready { image, migrated, kubernetes, workloads }) => {
            let begin = begin(Kind::Upgrade, &observed, image.clone(), request.reference, &BTreeMap::new())?;
            let transaction = Transaction::from_records(&[Record::Begin(Box::new(begin))]);
            let steps = transaction.map(|transaction| transaction.steps()).unwrap_or_default();
            Plan { from, to: image, steps, migrated: Some(migrated), kubernetes, workloads }
        }
    };
    let layout = &held.appliance.layout;
    remove_tree(&layout.incoming())?;
    remove_tree(&layout.scratch())?;
    Ok(plan)
}

fn clear_the_way(held: &mut Held, request: &Request<'_>, witness: &dyn Witness) -> Result<()> {
    match first(held, Wish::Upgrade, &request.options, witness)? {
        First::Refused | First::Again | First::Done(_) => {
            let observed = observe(&held.appliance)?;
            let present = observed.present(held.interrupted.as_ref());
            let refusal = may_upgrade(&present, &observed.current).err();
            Err(refused(
                &held.appliance,
                refusal.unwrap_or(Refusal::NothingToResume { current: String::new() }),
            ))
        }
        First::Clear(_) => Ok(()),
    }
}

/// A release that has arrived and can be moved to, as far as can be known before anything is changed.
struct Ready {
    image: Image,
    migrated: Migrated,
    /// Its Kubernetes objects are stored anew.
    kubernetes: bool,
    workloads: Vec<WorkloadNote>,
}

fn brought(appliance: &Appliance, request: &Request<'_>, witness: &dyn Witness) -> Result<(Image, Manifest)> {
    let incoming = appliance.layout.incoming();
    remove_tree(&incoming)?;
    let digest = (request.bring)(request.reference, &incoming, witness.stop());
    if witness.stop().load(Ordering::Relaxed) {
        remove_tree(&incoming)?;
        return Err(Error::Stopped);
    }
    let manifest = release::read(&incoming).map_err(Error::from);
    let digest = digest?;
    let manifest = manifest?;
    Ok((Image::new(manifest.version.clone(), &digest), manifest))
}

fn prepare(
    held: &Held,
    observed: &Observed,
    request: &Request<'_>,
    witness: &dyn Witness,
) -> Result<Option<Ready>> {
    let appliance = &held.appliance;
    let (image, manifest) = brought(appliance, request, witness)?;
    let asked = may_upgrade(&observed.present(None), &image).map_err(|refusal| refused(appliance, refusal));
    let checked = asked.and_then(|ask| match ask {
        Ask::Nothing if !request.options.secrets.is_empty() => {
            let why =
                format!("{} is there already, and secrets are replaced by an upgrade only", image.version);
            let hint =
                format!("`holdfast appliance configure {} --set-secret … --restart`", appliance.name());
            Err(Error::Rule { why, hint })
        }
        Ask::Nothing => Ok(None),
        Ask::Begin => check(appliance, &image, manifest, request, witness).map(Some),
    });
    // What was not begun leaves nothing.
    if !matches!(checked, Ok(Some(_))) {
        remove_tree(&appliance.layout.incoming())?;
        remove_tree(&appliance.layout.scratch())?;
    }
    checked
}

fn check(
    appliance: &Appliance,
    image: &Image,
    manifest: Manifest,
    request: &Request<'_>,
    witness: &dyn Witness,
) -> Result<Ready> {
    appliance.identity.backend.fits(&manifest)?;
    let layout = &appliance.layout;
    let (incoming, secrets) = (layout.incoming(), &request.options.secrets);
    let configuration = appliance.configuration()?;
    let migrated =
        migration::in_memory(layout, &incoming, &manifest, &configuration, secrets, witness.stop())?;
    let values = migrated.data.values.clone();
    let new = Configuration { values, ..configuration };
    can_be_started(&manifest, &incoming, &new, appliance)?;
    let kubernetes = appliance.identity.backend.kubernetes(&manifest).is_some();
    if kubernetes && request.options.kubernetes.is_none() {
        return Err(kubernetes::Error::NoProgram.into());
    }
    if let Some(gate) = request.gate {
        gate(&incoming)?;
    }
    let workloads = workload_notes(appliance, &incoming, &image.version, witness.stop())?;
    Ok(Ready { image: image.clone(), migrated, kubernetes, workloads })
}

/// Whether everything in the release at `release` that stands for something does, with this configuration, and all that
/// it is started from is there.
pub(super) fn can_be_started(
    manifest: &Manifest,
    release: &Path,
    configuration: &Configuration,
    appliance: &Appliance,
) -> Result<()> {
    let words = configuration.words(&appliance.layout, release);
    for text in manifest.texts() {
        release::expand(text, &words)?;
    }
    Ok(release::are_there(manifest, appliance.identity.backend, release, &words)?)
}

fn begin(
    kind: Kind,
    observed: &Observed,
    to: Image,
    reference: &str,
    secrets: &BTreeMap<String, String>,
) -> Result<Begin> {
    Ok(Begin {
        kind,
        from: observed.current.clone(),
        to,
        reference: reference.to_owned(),
        was_on: observed.on,
        was_ready: observed.ready,
        secrets: secrets.keys().cloned().collect(),
        snapshot: SnapshotId::new(crate::secrets::random()?),
        point: observed.point.clone(),
    })
}

/// One step back; or back from an upgrade that was interrupted.
pub fn roll_back(held: &mut Held, options: &Options, witness: &dyn Witness) -> Result<Upgraded> {
    if let Some(transaction) = &held.interrupted {
        may_undo(&held.appliance, transaction)?;
    }
    match first(held, Wish::RollBack, options, witness)? {
        // A step back was the wish, and only its books were behind.
        First::Clear(Some(end @ End::Committed(Begin { kind: Kind::Rollback, .. }))) => {
            return ended(&held.appliance, end, vec![]);
        }
        First::Clear(_) => {}
        // To undo was the wish, and it is done.
        First::Done(End::Undone { begin, .. }) => {
            let unproven = !begin.was_on;
            return Ok(Upgraded::Moved { from: begin.to, to: begin.from, unproven, workloads: vec![] });
        }
        First::Done(end) => return ended(&held.appliance, end, vec![]),
        First::Again | First::Refused => return again(held, options, witness),
    }
    let begin = back(&held.appliance)?;
    let end = Carrier::begin(held, begin, options, witness)?.run()?;
    ended(&held.appliance, end, vec![])
}

/// What [`roll_back`] would do; changes nothing, but for finishing what is past undoing.
pub fn plan_roll_back(held: &mut Held, options: &Options, witness: &dyn Witness) -> Result<Plan> {
    let planned = |transaction: &Transaction, from: &Image, to: &Image| {
        let (from, to, steps) = (from.clone(), to.clone(), transaction.steps());
        Plan { from, to, steps, migrated: None, kubernetes: false, workloads: vec![] }
    };
    if let Some(mut transaction) = held.interrupted.clone() {
        may_undo(&held.appliance, &transaction)?;
        let Begin { from, to, .. } = transaction.begin.clone();
        match take_up(Wish::RollBack, &transaction) {
            TakeUp::UndoOnly => {
                if transaction.way != Way::Back {
                    transaction.add(&Record::Undo { why: String::new() });
                }
                return Ok(planned(&transaction, &to, &from));
            }
            TakeUp::Again | TakeUp::Refuse => {
                transaction.add(&Record::Resume);
                return Ok(planned(&transaction, &from, &to));
            }
            TakeUp::GoOn | TakeUp::Undo => drop(first(held, Wish::RollBack, options, witness)?),
        }
    }
    let begin = back(&held.appliance)?;
    let (from, to) = (begin.from.clone(), begin.to.clone());
    let transaction = Transaction::from_records(&[Record::Begin(Box::new(begin))]);
    Ok(planned(&transaction.ok_or(Error::NothingBegun)?, &from, &to))
}

/// The beginning of a rollback, where one may begin.
fn back(appliance: &Appliance) -> Result<Begin> {
    let observed = observe(appliance)?.with_readiness(appliance);
    let point: Point =
        may_roll_back(&observed.present(None)).map_err(|refusal| refused(appliance, refusal))?.clone();
    begin(Kind::Rollback, &observed, point.image, "", &BTreeMap::new())
}

/// An interrupted upgrade whose release has made workloads is not undone behind their backs.
fn may_undo(appliance: &Appliance, transaction: &Transaction) -> Result<()> {
    if transaction.begin.kind == Kind::Rollback || !transaction.snapshot_taken || transaction.committed {
        return Ok(());
    }
    let observed = observe(appliance)?;
    match may_resume(&observed.present(Some(transaction))) {
        Err(refusal @ Refusal::NewerWorkloads { .. }) => Err(refused(appliance, refusal)),
        _ => Ok(()),
    }
}

/// Takes an interrupted transaction to its end.
pub fn resume(held: &mut Held, request: &Request<'_>, witness: &dyn Witness) -> Result<Upgraded> {
    match first(held, Wish::Resume, &request.options, witness)? {
        First::Clear(Some(end @ End::Committed(_))) => ended(&held.appliance, end, vec![]),
        First::Clear(_) | First::Done(_) | First::Refused => {
            let current = held.appliance.current()?.version.to_string();
            Err(refused(&held.appliance, Refusal::NothingToResume { current }))
        }
        First::Again => {
            let transaction = held.interrupted.clone().ok_or(Error::NothingBegun)?;
            let observed = observe(&held.appliance)?.with_readiness(&held.appliance);
            let begun = may_resume(&observed.present(Some(&transaction)))
                .map_err(|refusal| refused(&held.appliance, refusal))?;
            let given = &request.options.secrets;
            let missing = transaction.begin.secrets.iter().find(|key| !given.contains_key(*key));
            if let (Begun::Again, Some(key)) = (begun, missing) {
                let why = format!("the upgrade was begun with a new secret {key}, which is nowhere on disk");
                let hint = format!("give it again: --resume --set-secret {key}=@FILE");
                return Err(Error::Rule { why, hint });
            }
            if begun == Begun::Again && transaction.begin.kind == Kind::Upgrade {
                bring_again(held, &transaction, request, witness)?;
            }
            go_on(held, begun, &request.options, witness)
        }
    }
}

/// To the end, whichever it is.
fn go_on(held: &mut Held, begun: Begun, options: &Options, witness: &dyn Witness) -> Result<Upgraded> {
    let mut carrier = Carrier::take_over(held, options, witness)?;
    if begun == Begun::Again {
        carrier.resume()?;
    }
    let end = carrier.run()?;
    ended(&held.appliance, end, vec![])
}

/// Whatever there is of the image may be broken: it is brought anew.
fn bring_again(
    held: &Held,
    transaction: &Transaction,
    request: &Request<'_>,
    witness: &dyn Witness,
) -> Result<()> {
    let begin = &transaction.begin;
    let reference = if request.reference.is_empty() { &begin.reference } else { request.reference };
    let options = Options { secrets: BTreeMap::new(), ..request.options.clone() };
    let again = Request { reference, options, bring: request.bring, gate: request.gate };
    let (image, _) = brought(&held.appliance, &again, witness)?;
    if image.id != begin.to.id {
        remove_tree(&held.appliance.layout.incoming())?;
        let (asked, found) = (begin.to.id.to_string(), image.id.to_string());
        return Err(Error::OtherRelease { asked, found });
    }
    Ok(())
}

/// An interrupted rollback, taken forward again: nothing has to be brought for it.
fn again(held: &mut Held, options: &Options, witness: &dyn Witness) -> Result<Upgraded> {
    let transaction = held.interrupted.clone().ok_or(Error::NothingBegun)?;
    let observed = observe(&held.appliance)?.with_readiness(&held.appliance);
    let begun = may_resume(&observed.present(Some(&transaction)))
        .map_err(|refusal| refused(&held.appliance, refusal))?;
    go_on(held, begun, options, witness)
}
