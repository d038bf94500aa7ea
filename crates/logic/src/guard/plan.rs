//! The decision tree: what must happen before the workload may start.
//!
//! Data is judged by its owner, the boot that last ran on it, and by nothing else; so a boot whose `pre-run` failed
//! changes nothing about the data, and a copy put in place by hand is taken for what it says it is. The tree reads
//! from top to bottom: [`fit_data`] finds the phase, [`judge`] the owner's verdict, and one function per row below
//! says what follows. [`check_version`] comes last, always.

use super::boots::Health;
use super::copies::CopyRecord;
use super::data::{Data, DataRecord, DataState, Owner, Recorded};
use super::draft::Draft;
use super::observed::{Metadata, Observed, StagedOverUnhealthy, Wanted};
use super::steps::{Block, Branch, Outcome, Plan, Step};
use super::words;
use crate::host::DeploymentId;
use crate::version::{Fit, Misfit, fit};

type Decision = Result<(), Block>;

pub fn plan(seen: &Observed) -> Plan {
    let mut draft = Draft::new(seen);
    if let Metadata::Damaged { file, why } = &seen.metadata {
        draft.decide(Branch::DamagedRecord, format!("{file} and its second copy can't be read"));
        return draft.finish(Outcome::Block(words::metadata_damaged(file, why)));
    }
    draft.recover();
    let decision = fit_data(&mut draft).and_then(|()| {
        keep_what_is_owed(&mut draft);
        check_version(&mut draft)
    });
    draft.cap_asides();
    draft.finish(decision.map_or_else(Outcome::Block, |()| Outcome::Allow))
}

/// An administrator wants a copy back now, in the middle of a boot: a boot of its own from here on. The data is not
/// judged, since somebody chose it; nor is it migrated, since that somebody may be about to boot what it belongs to.
pub fn plan_restore(seen: &Observed, wanted: &Wanted) -> Result<Plan, Block> {
    if let Metadata::Damaged { file, why } = &seen.metadata {
        return Err(words::metadata_damaged(file, why));
    }
    let mut draft = Draft::replacing(seen);
    draft.recover();
    restore_wanted(&mut draft, wanted)?;
    keep_what_is_owed(&mut draft);
    draft.cap_asides();
    let outcome = match version_fit(&draft) {
        Fit::AsIs => Outcome::Allow,
        Fit::AfterMigration => Outcome::Block(words::migration_needed()),
        Fit::Refused(misfit) => Outcome::Block(refusal(&draft, misfit)),
    };
    Ok(draft.finish(outcome))
}

fn fit_data(draft: &mut Draft) -> Decision {
    if let Data::Present(Recorded::Damaged(why)) = &draft.data {
        let block = words::metadata_damaged("version.json", why);
        draft.decide(Branch::DamagedRecord, "the data does not say what it is");
        return Err(block);
    }
    if draft.is_prepared() && is_whole(&draft.data) {
        draft.decide(Branch::AlreadyPrepared, "this boot was prepared before; what follows is checked again");
        return Ok(());
    }
    if let Some(request) = &draft.seen.request {
        pin(draft, &request.wanted);
        restore_wanted(draft, &request.wanted)?;
        draft.request = None;
        draft.push(Step::ClearRequest, Branch::Requested, "the restore that was asked for is done");
        return Ok(());
    }
    match draft.data.clone() {
        Data::Absent => {
            absent(draft);
            Ok(())
        }
        Data::Present(Recorded::Missing) => no_record(draft),
        Data::Present(Recorded::Known(record)) => match record.state {
            DataState::Ok => judge(draft, &record),
            DataState::Tainted { .. } => {
                let whole = return_to_base(draft, &record)?;
                judge(draft, &whole)
            }
        },
        Data::Present(Recorded::Damaged(_)) => Ok(()),
    }
}

fn is_whole(data: &Data) -> bool {
    data.record().is_none_or(|record| record.state == DataState::Ok)
}

fn absent(draft: &mut Draft) {
    let knows_something = draft.copies.iter().next().is_some() || draft.boots.any_ran();
    match knows_something {
        false => draft.decide(Branch::FirstBoot, "there is no data and no backup: a first boot"),
        true => draft.decide(Branch::DataGone, "there is no data: start fresh, and leave every backup alone"),
    }
}

fn no_record(draft: &mut Draft) -> Decision {
    if draft.boots.any_ran() || draft.copies.iter().next().is_some() {
        draft.decide(Branch::ForeignData, "there is data without version.json, though boots are on record");
        return Err(words::foreign_data());
    }
    let version = draft.seen.policy.assumed.clone();
    let reason = format!("data without version.json, and no boot on record: taken for {version}");
    let Ok(deployment) = DeploymentId::new(version.as_str()) else {
        return Err(words::foreign_data());
    };
    let owner = Owner { deployment: deployment.clone(), seq: None };
    let record = DataRecord { version: version.clone(), owner, state: DataState::Ok };
    draft.data = Data::Present(Recorded::Known(record.clone()));
    draft.decide(Branch::NoRecordAssumed, reason.clone());
    draft.push(Step::Assume { version, deployment }, Branch::NoRecordAssumed, reason);
    draft.back_up(&record, Branch::NoRecordAssumed, "keep it before anything touches it");
    Ok(())
}

/// A wish in words ("the backup of whatever boots") must mean the same after an interruption, when a newer backup may
/// answer to the same words.
fn pin(draft: &mut Draft, wanted: &Wanted) {
    let found = resolve(&draft.copies, &draft.boots, draft.booted(), wanted).map(|copy| copy.number);
    if let (Ok(number), false) = (found, matches!(wanted, Wanted::Number(_))) {
        draft.push(
            Step::PinRequest { number },
            Branch::Requested,
            format!("what was asked for is copy {number}"),
        );
    }
}

fn restore_wanted(draft: &mut Draft, wanted: &Wanted) -> Decision {
    let source = match resolve(&draft.copies, &draft.boots, draft.booted(), wanted) {
        Ok(source) => source.clone(),
        Err(block) => {
            draft.decide(Branch::Requested, "a restore was asked for, and there is nothing to restore");
            return Err(block);
        }
    };
    let reason = format!("an administrator asked for {}", words::copy(&source));
    draft.decide(Branch::Requested, reason.clone());
    draft.spared = Some(source.number);
    keep_if_good(draft);
    draft.restore(&source, Branch::Requested, &reason);
    draft.spared = None;
    Ok(())
}

/// Which copy a wish names.
pub fn resolve<'a>(
    copies: &'a super::Copies,
    boots: &super::Boots,
    booted: &DeploymentId,
    wanted: &Wanted,
) -> Result<&'a CopyRecord, Block> {
    let of = |deployment| copies.newest_healthy_of(deployment, boots).or(copies.newest_of(deployment));
    let found = match wanted {
        Wanted::Booted => of(booted),
        Wanted::Deployment(deployment) => of(deployment),
        Wanted::Number(number) => copies.get(*number),
    };
    match found {
        Some(copy) if copy.tainted => Err(words::copy_half_migrated(copy)),
        Some(copy) => Ok(copy),
        None => Err(words::requested_backup_missing(wanted, booted)),
    }
}

/// Before anything replaces the data: keep it, if a healthy boot vouched for it or nobody judged it.
fn keep_if_good(draft: &mut Draft) {
    let Some(record) = draft.data.record().filter(|record| record.state == DataState::Ok).cloned() else {
        return;
    };
    let verdict = draft.verdict_on(&record.owner);
    if matches!(verdict, None | Some(Health::Healthy)) {
        let reason = format!("{} is good data: keep it before it is replaced", words::data(&record));
        draft.back_up(&record, Branch::Requested, &reason);
    }
}

/// A migration began and did not end. What it left is neither old nor new; its base is.
fn return_to_base(draft: &mut Draft, record: &DataRecord) -> Result<DataRecord, Block> {
    let DataState::Tainted { failed, from, to, base } = &record.state else {
        return Ok(record.clone());
    };
    let what = if *failed { "failed" } else { "was interrupted" };
    let reason = format!("the migration from {from} to {to} {what}: return to the backup it started from");
    let found = match base {
        Some(number) => draft.copies.get(*number),
        None => draft
            .copies
            .vouched(&draft.boots)
            .filter(|copy| copy.version.as_ref() == Some(from))
            .max_by_key(|copy| copy.age()),
    };
    let Some((source, version)) = found.cloned().and_then(|c| c.version.clone().map(|v| (c, v))) else {
        draft.decide(Branch::MigrationBroken, reason);
        return Err(words::no_backup(&format!("the base of the migration from {from} to {to}")));
    };
    draft.decide(Branch::MigrationBroken, reason.clone());
    draft.restore(&source, Branch::MigrationBroken, &reason);
    Ok(DataRecord { version, owner: source.owner, state: DataState::Ok })
}

/// What a healthy boot vouched for is kept before anybody else runs on it, whatever was said of it later.
fn keep_if_vouched(draft: &mut Draft, record: &DataRecord) {
    if draft.is_vouched(&record.owner) {
        let reason = format!("{} was healthy: back it up", words::data(record));
        draft.back_up(record, Branch::OwnerVouched, &reason);
    }
}

/// Whatever the tree left in place: if another boot vouched for it, there is a backup before the workload changes it.
/// The verdict may have come after this boot was prepared, or the data out of a copy made while its owner still ran.
fn keep_what_is_owed(draft: &mut Draft) {
    let record = draft.data.record().filter(|record| record.state == DataState::Ok);
    if let Some(record) = record.filter(|record| record.owner.seq != Some(draft.seq)).cloned() {
        keep_if_vouched(draft, &record);
    }
}

fn judge(draft: &mut Draft, record: &DataRecord) -> Decision {
    let own = record.owner.deployment == *draft.booted();
    let verdict = draft.verdict_on(&record.owner);
    if verdict != Some(Health::Healthy) {
        keep_if_vouched(draft, record);
    }
    match verdict {
        None => {
            let reason = format!("nobody has judged {}: keep a copy and go on", words::data(record));
            draft.decide(Branch::OwnerUnjudged, reason.clone());
            draft.back_up(record, Branch::OwnerUnjudged, &reason);
            Ok(())
        }
        Some(Health::Healthy) => {
            after_healthy(draft, record, own);
            Ok(())
        }
        Some(Health::Unknown) if own => {
            let reason =
                format!("{} got no verdict, and the same deployment boots again", words::data(record));
            draft.decide(Branch::OwnerUnknownSame, reason);
            Ok(())
        }
        Some(Health::Unknown | Health::Unhealthy) if own => after_own_unhealthy(draft, record),
        Some(Health::Unknown | Health::Unhealthy) => after_others_unhealthy(draft, record),
    }
}

fn after_healthy(draft: &mut Draft, record: &DataRecord, own: bool) {
    let reason = match draft.kept_copy_of(record) {
        Some(number) => format!("{} was healthy, and copy {number} holds it", words::data(record)),
        None => format!("{} was healthy: back it up", words::data(record)),
    };
    draft.decide(Branch::OwnerHealthy, reason.clone());
    draft.back_up(record, Branch::OwnerHealthy, &reason);
    if own {
        return;
    }
    let booted = draft.booted();
    let was_healthy = draft.boots.last_run_of(booted).is_some_and(|boot| boot.system == Health::Healthy);
    let backup = draft.copies.newest_healthy_of(booted, &draft.boots);
    let older = backup
        .filter(|copy| copy.version.as_ref().is_some_and(|version| version.is_older_than(&record.version)));
    if let Some(source) = older.filter(|_| was_healthy).cloned() {
        let reason = format!(
            "{booted} was healthy with older data than {}: a rollback on demand, so its own data comes back",
            words::data(record)
        );
        draft.decide(Branch::RollbackOnDemand, reason.clone());
        draft.restore(&source, Branch::RollbackOnDemand, &reason);
    }
}

/// The booted deployment finds its own data, from a boot that was not healthy.
fn after_own_unhealthy(draft: &mut Draft, record: &DataRecord) -> Decision {
    let booted = draft.booted();
    if draft.previous().is_some_and(|previous| previous.deployment != *booted) {
        let reason = format!(
            "{booted} was unhealthy, another deployment was tried and left the data alone: keep the last healthy \
             backup apart, back the data up as it is, and try again"
        );
        draft.decide(Branch::UnhealthyUntouched, reason.clone());
        draft.set_last_healthy_apart(record, Branch::UnhealthyUntouched, &reason);
        return Ok(());
    }
    if draft.copies.newest_healthy_of(booted, &draft.boots).is_some() {
        let reason =
            format!("{booted} was healthy before and is unhealthy now: leave its data, let it try again");
        draft.decide(Branch::UnhealthyAgain, reason);
        return Ok(());
    }
    always_unhealthy(draft)
}

/// The booted deployment has never been healthy, and this is not its first boot.
fn always_unhealthy(draft: &mut Draft) -> Decision {
    let booted = draft.booted();
    let Some(earlier) = draft.boots.last_run_of_another(booted).cloned() else {
        let reason = format!("{booted} was never healthy and nothing ran before it: start clean");
        draft.decide(Branch::AlwaysUnhealthyFirst, reason.clone());
        draft.move_aside(Branch::AlwaysUnhealthyFirst, &reason);
        return Ok(());
    };
    let of = &earlier.deployment;
    if draft.seen.listed().is_some_and(|listed| !listed.contains(of)) {
        let reason =
            format!("{booted} was never healthy, and {of} before it is gone from the host: start clean");
        draft.decide(Branch::AlwaysUnhealthyLeftover, reason.clone());
        draft.move_aside(Branch::AlwaysUnhealthyLeftover, &reason);
        return Ok(());
    }
    match earlier.system {
        Health::Healthy => {
            let reason = format!(
                "{booted} was never healthy: try again from the healthy data of {of}, as at its first boot"
            );
            draft.decide(Branch::AlwaysUnhealthyRetry, reason.clone());
            let source = draft.copies.newest_healthy_of(of, &draft.boots).cloned();
            let source = source.ok_or_else(|| words::no_backup(&format!("a healthy backup of {of}")))?;
            draft.restore(&source, Branch::AlwaysUnhealthyRetry, &reason);
            Ok(())
        }
        Health::Unhealthy => {
            let reason = format!("{booted} was never healthy, nor was {of}, over which it was staged");
            draft.decide(Branch::AlwaysUnhealthyOverUnhealthy, reason);
            Err(words::staged_over_unhealthy(of, booted))
        }
        Health::Unknown => {
            let reason = format!(
                "{booted} was never healthy, and {of} before it got no verdict: the data is its own, keep it"
            );
            draft.decide(Branch::AlwaysUnhealthyOverUnknown, reason);
            Ok(())
        }
    }
}

/// The booted deployment finds the data of another one, from a boot that was not healthy.
fn after_others_unhealthy(draft: &mut Draft, record: &DataRecord) -> Decision {
    let booted = draft.booted();
    let Some(last_run) = draft.boots.last_run_of(booted).cloned() else {
        return staged_over_unhealthy(draft, record);
    };
    let data = words::data(record);
    let healthy = draft.copies.newest_healthy_of(booted, &draft.boots).cloned();
    match last_run.system {
        Health::Healthy => {
            let reason = format!("{data} was not healthy, {booted} was: its own data comes back");
            draft.decide(Branch::RolledBackToHealthy, reason.clone());
            let source = healthy.ok_or_else(|| words::no_backup(&format!("a healthy backup of {booted}")))?;
            draft.restore(&source, Branch::RolledBackToHealthy, &reason);
        }
        Health::Unhealthy => {
            let backup = healthy.or_else(|| draft.copies.newest_of(booted).cloned());
            let reason = match &backup {
                Some(_) => format!(
                    "neither {data} nor {booted} was healthy last: back to the last good data of {booted}"
                ),
                None => format!("neither {data} nor {booted} was ever healthy: start clean"),
            };
            draft.decide(Branch::RolledBackToUnhealthy, reason.clone());
            match backup {
                Some(source) => draft.restore(&source, Branch::RolledBackToUnhealthy, &reason),
                None => draft.move_aside(Branch::RolledBackToUnhealthy, &reason),
            }
        }
        Health::Unknown => {
            let reason = format!("{data} was not healthy, and {booted} got no verdict when it ran last");
            draft.decide(Branch::RolledBackToUnknown, reason.clone());
            let source = healthy.or_else(|| newest_readable(draft));
            let source =
                source.ok_or_else(|| words::no_backup("a healthy backup that this version can read"))?;
            draft.restore(&source, Branch::RolledBackToUnknown, &reason);
        }
    }
    Ok(())
}

/// The first boot of a deployment, over data of one that was not healthy.
fn staged_over_unhealthy(draft: &mut Draft, record: &DataRecord) -> Decision {
    let (booted, data) = (draft.booted(), words::data(record));
    let branch = Branch::StagedOverUnhealthy;
    let policy = draft.seen.policy.staged_over_unhealthy;
    let last_healthy =
        (policy == StagedOverUnhealthy::RestoreLastHealthy).then(|| newest_readable(draft)).flatten();
    match (policy, last_healthy) {
        (StagedOverUnhealthy::Block, _) => {
            draft.decide(branch, format!("{booted} was staged over {data}, which was not healthy"));
            return Err(words::staged_over_unhealthy(&record.owner.deployment, booted));
        }
        (StagedOverUnhealthy::Keep, _) => {
            let reason =
                format!("{booted} was staged over {data}, which was not healthy: kept, as configured");
            draft.decide(branch, reason);
        }
        (_, Some(source)) => {
            let reason = format!(
                "{booted} was staged over {data}, which was not healthy: back to {}",
                words::copy(&source)
            );
            draft.decide(branch, reason.clone());
            draft.restore(&source, branch, &reason);
        }
        (_, None) => {
            let reason = format!("{booted} was staged over {data}, which was not healthy: start clean");
            draft.decide(branch, reason.clone());
            draft.move_aside(branch, &reason);
        }
    }
    Ok(())
}

/// The newest data that a healthy boot vouched for and that the booted version can take over.
fn newest_readable(draft: &Draft) -> Option<CopyRecord> {
    let policy = &draft.seen.policy;
    let readable = |copy: &&CopyRecord| {
        copy.version.as_ref().is_some_and(|version| {
            !matches!(fit(version, &draft.seen.program, policy.max_skew, &policy.blocked), Fit::Refused(_))
        })
    };
    draft.copies.vouched(&draft.boots).filter(readable).max_by_key(|copy| copy.age()).cloned()
}

/// How the booted program gets along with the data in place. No data fits everything.
fn version_fit(draft: &Draft) -> Fit {
    let policy = &draft.seen.policy;
    draft.data.record().map_or(Fit::AsIs, |record| {
        fit(&record.version, &draft.seen.program, policy.max_skew, &policy.blocked)
    })
}

fn refusal(draft: &Draft, misfit: Misfit) -> Block {
    let data = draft.data.record().map_or(&draft.seen.program, |record| &record.version);
    words::misfit(misfit, data, &draft.seen.program, draft.seen.policy.max_skew)
}

fn check_version(draft: &mut Draft) -> Decision {
    match (version_fit(draft), draft.data.record().cloned()) {
        (Fit::Refused(misfit), _) => Err(refusal(draft, misfit)),
        (Fit::AfterMigration, Some(record)) => {
            let base = draft.back_up(&record, Branch::VersionCheck, "a migration starts from a backup");
            let (from, program) = (&record.version, &draft.seen.program);
            let reason = format!(
                "the data is of {from}, the program is {program}: migrate, starting from backup {base}"
            );
            draft.migrate(from, program, base, &reason);
            Ok(())
        }
        _ => Ok(()),
    }
}
