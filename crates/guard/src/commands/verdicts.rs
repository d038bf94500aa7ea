//! What was said of a boot's health, and by whom.

use logic::guard::{Health, Seq};
use logic::host::DeploymentId;

use crate::clock;
use crate::device::{Device, Survey};
use crate::error::{Error, Result};
use crate::execute::{Executor, Witness, write_health};

/// The number of this boot in the record; entered now if `pre-run` never got that far.
fn this_boot(device: &Device, executor: &mut Executor) -> Seq {
    let plan_number = logic::guard::plan(&executor.survey().observed).seq;
    let boots = &mut executor.health_mut().boots;
    boots.enter(plan_number, &device.boot, &device.host.booted, &clock::now())
}

fn refuse_damaged(survey: &Survey) -> Result<()> {
    match &survey.observed.metadata {
        logic::guard::Metadata::Readable => Ok(()),
        logic::guard::Metadata::Damaged { file, why } => {
            Err(Error::Damaged { file: file.clone(), why: why.clone() })
        }
    }
}

fn record(
    device: &Device,
    witness: &dyn Witness,
    step: &str,
    reason: &str,
    change: impl FnOnce(&mut logic::guard::Boots, Seq) -> Health,
) -> Result<()> {
    let mut executor = Executor::open_patiently(device, witness)?;
    refuse_damaged(executor.survey())?;
    let seq = this_boot(device, &mut executor);
    executor.set_seq(seq);
    let health = executor.health_mut();
    let outcome = change(&mut health.boots, seq);
    write_health(device, health)?;
    executor.log(step, None, reason, &outcome.to_string());
    Ok(())
}

/// The verdict on the whole system: it decides what the next boot does with the data.
pub fn persist_system_health(device: &Device, health: Health, witness: &dyn Witness) -> Result<()> {
    record(device, witness, "persist-system-health", "the system was judged", |boots, seq| {
        boots.judge_system(seq, health);
        health
    })
}

/// The verdict on the workload alone. It is kept for people; the system's decides.
pub fn persist_workload_health(
    device: &Device,
    health: Health,
    reason: &str,
    witness: &dyn Witness,
) -> Result<()> {
    record(device, witness, "healthcheck", reason, |boots, seq| {
        boots.judge_workload(seq, health);
        health
    })
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
    let owners = seen.copies.iter().map(|copy| &copy.owner);
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
