//! What was said of a boot's health, and by whom.

use logic::guard::{Boots, Health, PreRun, Seq};
use logic::host::DeploymentId;

use crate::clock;
use crate::device::{Device, Survey};
use crate::error::{Error, Result};
use crate::execute::{Executor, Witness, write_health};
use crate::health::{CheckResult, Ending, Outcome, Period, Report, Verdict};

/// The number of this boot in the record; entered now if `pre-run` never got that far.
fn this_boot(device: &Device, executor: &mut Executor) -> Seq {
    let next = executor.survey().observed.next_number();
    let boots = &mut executor.health_mut().boots;
    let known = boots.find(&device.boot, &device.host.booted).map(|boot| boot.seq);
    known.unwrap_or_else(|| boots.enter(next, &device.boot, &device.host.booted, &clock::now()))
}

fn refuse_damaged(survey: &Survey) -> Result<()> {
    match &survey.observed.metadata {
        logic::guard::Metadata::Readable => Ok(()),
        logic::guard::Metadata::Damaged { file, why } => {
            Err(Error::Damaged { file: file.clone(), why: why.clone() })
        }
    }
}

/// Writes what `change` says of this boot, and what was `said` into the log: step, reason, outcome.
fn record(
    device: &Device,
    witness: &dyn Witness,
    said: &[(&str, String, String)],
    change: impl FnOnce(&mut Boots, Seq),
) -> Result<()> {
    let mut executor = Executor::open_patiently(device, witness)?;
    refuse_damaged(executor.survey())?;
    let seq = this_boot(device, &mut executor);
    executor.set_seq(seq);
    let health = executor.health_mut();
    change(&mut health.boots, seq);
    write_health(device, health)?;
    for (step, reason, outcome) in said {
        executor.log(step, None, reason, outcome);
    }
    Ok(())
}

/// The verdict on the whole system: it decides what the next boot does with the data.
pub fn persist_system_health(device: &Device, health: Health, witness: &dyn Witness) -> Result<()> {
    let said = [("persist-system-health", "the system was judged".to_owned(), health.to_string())];
    record(device, witness, &said, |boots, seq| boots.judge_system(seq, health))
}

/// The verdict on the workload alone, with the result of every check. It is kept for people; the system's decides.
pub fn persist_workload_health(device: &Device, report: &Report, witness: &dyn Witness) -> Result<()> {
    let health = match report.verdict {
        Verdict::Healthy => Health::Healthy,
        Verdict::Unhealthy => Health::Unhealthy,
    };
    let result = |check: &CheckResult| {
        let need = if check.required { "required" } else { "wanted" };
        (
            "check",
            format!("{} ({need} {}): {}", check.name, check.kind, check.detail),
            check.outcome.to_string(),
        )
    };
    let passed = report.checks.iter().filter(|check| check.outcome == Outcome::Passed).count();
    let summary = format!("{passed} of {} checks passed", report.checks.len());
    let verdict = ("healthcheck", summary, health.to_string());
    let said: Vec<_> = report.checks.iter().map(result).chain([verdict]).collect();
    record(device, witness, &said, |boots, seq| boots.judge_workload(seq, health))
}

/// A boot that `pre-run` has blocked runs no workload, whatever the checks find: a failed check of its own, or nothing.
pub fn check_of_pre_run(device: &Device) -> Result<Option<CheckResult>> {
    let survey = device.survey()?;
    let boot = survey.observed.boots.find(&device.boot, &device.host.booted);
    let blocked = boot.is_some_and(|boot| matches!(boot.pre_run, PreRun::Begun | PreRun::Failed));
    Ok(blocked.then(|| CheckResult {
        name: "pre-run".to_owned(),
        kind: "guard".to_owned(),
        required: true,
        outcome: Outcome::Failed,
        ending: Ending::Settled,
        last_attempt: None,
        attempts: 1,
        took: Period::seconds(0),
        detail: "pre-run did not prepare this boot: `holdfast guard history` says why".to_owned(),
        path: None,
    }))
}

#[derive(Debug, Clone, serde::Serialize)]
pub struct Marked {
    pub deployment: DeploymentId,
    pub seq: Seq,
}

/// An administrator vouches for the data that a deployment's last run has left.
pub fn mark_healthy(
    device: &Device,
    of: Option<&DeploymentId>,
    reason: &str,
    witness: &dyn Witness,
) -> Result<Marked> {
    let mut executor = Executor::open_patiently(device, witness)?;
    refuse_damaged(executor.survey())?;
    let of = of.unwrap_or(&device.host.booted);
    let seen = &executor.survey().observed;
    let Some(seq) = seen.boots.last_run_of(of).map(|boot| boot.seq) else {
        return Err(Error::NotFound {
            what: format!("{of} has never run the workload here"),
            hint: "`holdfast guard status` lists the deployments on record".to_owned(),
        });
    };
    let owners = seen.copies.iter().filter(|copy| !copy.tainted).map(|copy| &copy.owner);
    let mut owners = owners.chain(seen.data.record().map(|record| &record.owner));
    if !owners.any(|owner| owner.deployment == *of && owner.seq.is_none_or(|owned| owned == seq)) {
        return Err(Error::Refused {
            what: format!(
                "the data that {of} left when it ran last (boot {seq}) is gone: there is nothing to vouch for"
            ),
            hint: "`holdfast guard backups list` shows whose data there is".to_owned(),
        });
    }
    executor.set_seq(seq);
    let health = executor.health_mut();
    health.boots.judge_system(seq, Health::Healthy);
    health.boots.judge_workload(seq, Health::Healthy);
    write_health(device, health)?;
    executor.log("mark-deploy-as-healthy", None, &format!("{of}: {reason}"), "healthy");
    Ok(Marked { deployment: of.clone(), seq })
}
