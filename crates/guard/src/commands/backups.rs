//! Looking after the copies: proving, restoring, pruning and taking over.

use disk::tree::{self, Depth, Manifest, Mismatch, VerifyOptions};
use logic::guard::{
    CopyKind, CopyRecord, Data, DataRecord, DataState, Owner, Place, Plan, Recorded, RestoreRequest, Seq,
    Wanted, plan_restore, resolve, retention,
};
use logic::host::DeploymentId;
use logic::version::Version;
use serde::Serialize;

use super::boot::refuse_while_workload_runs;
use crate::clock;
use crate::device::{Device, exists};
use crate::error::{Doing, Error, Result, While};
use crate::execute::{Executor, Watch, Witness};
use crate::records::copy_file::{self, CopyFile};
use crate::records::replicated;
use crate::records::{request_file, version_file};

/// Brings a copy back now. The workload must not run.
pub fn restore(
    device: &Device,
    wanted: &Wanted,
    witness: &dyn Witness,
    planned: impl FnOnce(&Plan),
) -> Result<Plan> {
    refuse_while_workload_runs(device)?;
    let mut executor = Executor::open(device, witness)?;
    let plan = plan_restore(&executor.survey().observed, wanted).map_err(missing)?;
    planned(&plan);
    match executor.prepare(&plan) {
        // The copy is back, which is what was asked for; the plan said that it does not fit what is booted.
        Ok(()) | Err(Error::Blocked(_)) => Ok(plan),
        Err(error) => Err(error),
    }
}

/// What [`restore`] would do.
pub fn plan_of_restore(device: &Device, wanted: &Wanted) -> Result<Plan> {
    plan_restore(&device.survey()?.observed, wanted).map_err(missing)
}

fn missing(block: logic::guard::Block) -> Error {
    match block.rule {
        logic::guard::Rule::RequestedBackupMissing => {
            Error::NotFound { what: block.why, hint: block.way_out }
        }
        _ => Error::Blocked(block),
    }
}

/// Leaves the wish for the next boot. It must name something, unless it names whatever boots then.
pub fn request_restore(device: &Device, wanted: &Wanted, witness: &dyn Witness) -> Result<()> {
    let executor = Executor::open_patiently(device, witness)?;
    let seen = &executor.survey().observed;
    if *wanted != Wanted::Booted {
        resolve(&seen.copies, &seen.boots, &device.host.booted, wanted).map_err(missing)?;
    }
    let request = RestoreRequest { wanted: wanted.clone(), at: clock::now() };
    disk::durable::write_durably(&device.layout.request(), &request_file::render(&request))
        .during(Doing::Records)?;
    let words = match wanted {
        Wanted::Booted => "the backup of whatever boots next".to_owned(),
        Wanted::Deployment(deployment) => format!("the backup of {deployment}"),
        Wanted::Number(number) => format!("copy {number}"),
    };
    executor.log("request-restore", None, &words, "left for the next boot");
    Ok(())
}

pub fn cancel_restore(device: &Device, witness: &dyn Witness) -> Result<()> {
    let executor = Executor::open_patiently(device, witness)?;
    if !exists(&device.layout.request()) {
        return Err(Error::NotFound {
            what: "no restore was asked for".to_owned(),
            hint: "`holdfast guard status` shows what the next boot will do".to_owned(),
        });
    }
    copy_file::remove_file(&device.layout.request()).during(Doing::Records)?;
    executor.log("cancel-restore", None, "the request for the next boot was taken back", "done");
    Ok(())
}

#[derive(Debug, Serialize)]
pub struct Pruned {
    pub removed: Vec<CopyRecord>,
    pub reasons: Vec<String>,
}

/// Removes what retention lets go after a healthy verdict.
pub fn tidy(device: &Device, witness: &dyn Witness) -> Result<()> {
    let mut executor = Executor::open_patiently(device, witness)?;
    executor.measure_asides()?;
    let steps = retention::tidy(&executor.survey().observed);
    executor.carry_out(&steps)
}

/// Removes all that retention may let go.
pub fn prune(device: &Device, dry_run: bool, witness: &dyn Witness) -> Result<Pruned> {
    let mut executor = Executor::open_patiently(device, witness)?;
    if !dry_run {
        executor.measure_asides()?;
    }
    let steps = retention::prune(&executor.survey().observed);
    let seen = &executor.survey().observed;
    let removed = steps.iter().filter_map(|planned| match &planned.step {
        logic::guard::Step::Operate(logic::guard::Operation::Discard { number, .. }) => {
            seen.copies.get(*number).cloned()
        }
        _ => None,
    });
    let pruned =
        Pruned { removed: removed.collect(), reasons: steps.iter().map(|s| s.reason.clone()).collect() };
    if !dry_run {
        executor.carry_out(&steps)?;
    }
    Ok(pruned)
}

/// Records a hash of every file of every backup that has none yet: after the boot is green, before anything relies
/// on the copy. Returns how many backups were sealed.
///
/// Reading takes its time, so the lock is held only while the result is written: a workload that restarts meanwhile
/// must not wait.
pub fn seal(device: &Device, witness: &dyn Witness) -> Result<usize> {
    let records = device.layout.records();
    let survey = device.survey()?;
    let mut sealed = 0;
    for copy in survey.observed.copies.iter().filter(|copy| copy.kind == CopyKind::Backup) {
        let path = copy_file::manifest_path(&records, copy.number);
        let tree = device.layout.path(&copy.place);
        let watch = Watch(witness);
        // A snapshot costs nothing per file, so its list of files is made here, when there is time.
        let mut manifest = match Manifest::load(&path).during(Doing::Records)? {
            Some(manifest) if manifest.is_sealed() => continue,
            Some(manifest) => manifest,
            None => tree::survey(&tree, device.threads, &watch).during(Doing::Records)?,
        };
        // A file that changed since the copy was made is not given a hash: that would make the change good.
        tree::seal(&tree, &mut manifest, device.threads, &watch).during(Doing::Records)?;
        let executor = Executor::open_patiently(device, witness)?;
        let unchanged = executor.survey().observed.copies.get(copy.number) == Some(copy);
        if unchanged {
            manifest.save(&path).during(Doing::Records)?;
            sealed += 1;
        }
    }
    Ok(sealed)
}

#[derive(Debug, Serialize)]
pub struct Verified {
    pub number: Seq,
    pub deployment: DeploymentId,
    /// `content`, or `structure` where no hashes are recorded.
    pub depth: &'static str,
    pub problems: Vec<String>,
}

/// Compares copies with what was recorded of them.
pub fn verify(device: &Device, wanted: Option<&Wanted>, witness: &dyn Witness) -> Result<Vec<Verified>> {
    let survey = device.survey()?;
    let seen = &survey.observed;
    let chosen: Vec<&CopyRecord> = match wanted {
        None => seen.copies.iter().filter(|copy| copy.kind == CopyKind::Backup).collect(),
        Some(wanted) => {
            vec![resolve(&seen.copies, &seen.boots, &device.host.booted, wanted).map_err(missing)?]
        }
    };
    chosen.into_iter().map(|copy| verify_one(device, copy, witness)).collect()
}

fn verify_one(device: &Device, copy: &CopyRecord, witness: &dyn Witness) -> Result<Verified> {
    let tree = device.layout.path(&copy.place);
    let manifest = Manifest::load(&copy_file::manifest_path(&device.layout.records(), copy.number));
    let (depth, problems) = match manifest {
        Ok(Some(manifest)) => {
            let depth = if manifest.is_sealed() { Depth::Content } else { Depth::Structure };
            let options = VerifyOptions { threads: device.threads, ..VerifyOptions::default() };
            let watch = Watch(witness);
            let found = tree::verify(&tree, &manifest, depth, &options, &watch).during(Doing::Records)?;
            let name = if depth == Depth::Content { "content" } else { "structure" };
            (name, found.iter().map(Mismatch::to_string).collect())
        }
        // A snapshot has no list of files until it is sealed.
        Ok(None) if method_of(device, copy.number).as_deref() == Some("snapshot") => ("none", vec![]),
        Ok(None) => ("none", vec!["its list of files is missing".to_owned()]),
        Err(error) => ("none", vec![format!("its list of files can't be read: {error}")]),
    };
    Ok(Verified { number: copy.number, deployment: copy.owner.deployment.clone(), depth, problems })
}

fn method_of(device: &Device, number: Seq) -> Option<String> {
    let records = copy_file::load_all(&device.layout.records()).ok()?;
    records.files.into_iter().find(|file| file.record.number == number).map(|file| file.method)
}

/// Takes over a directory in the backups directory that something else has made.
pub fn adopt_backup(device: &Device, name: &str, healthy: bool, witness: &dyn Witness) -> Result<CopyRecord> {
    let executor = Executor::open_patiently(device, witness)?;
    let seen = &executor.survey().observed;
    let refused = |what: String| Error::Refused {
        what,
        hint: "a backup is a directory named after its deployment, with version.json in it".to_owned(),
    };
    let deployment = DeploymentId::new(name).map_err(|error| refused(error.to_string()))?;
    if !seen.foreign.iter().any(|known| known == name) {
        return Err(Error::NotFound {
            what: format!(
                "{} is not there, or guard made it itself",
                device.layout.backups.join(name).display()
            ),
            hint: "`holdfast guard backups list` shows what guard knows".to_owned(),
        });
    }
    let place = Place::Current(deployment.clone());
    let tree = device.layout.path(&place);
    let record = read_record(&tree).map_err(|why| refused(format!("{}: {why}", tree.display())))?;
    let manifest = tree::survey(&tree, device.threads, &executor.watch()).during(Doing::Records)?;
    let (files, bytes) = manifest.totals();
    let seq = logic::guard::plan(seen).seq;
    let copy = CopyRecord {
        number: seen.next_number(),
        kind: CopyKind::Backup,
        place,
        owner: Owner { deployment, seq: record.owner.seq },
        version: Some(record.version),
        made_in: seq,
        healthy,
        tainted: false,
        same_as: None,
        bytes,
    };
    disk::durable::sync_fs(&tree).during(Doing::Records)?;
    let file = CopyFile { record: copy.clone(), at: clock::now(), files, method: "adopted".to_owned() };
    copy_file::commit(&device.layout.records(), &file, Some(&manifest)).during(Doing::Records)?;
    executor.log("adopt-backup", None, name, "done");
    Ok(copy)
}

fn read_record(tree: &std::path::Path) -> Result<DataRecord, String> {
    match replicated::read(&tree.join("version.json"), version_file::LIMIT, version_file::parse) {
        Ok(replicated::Kept::Whole(record) | replicated::Kept::Second(record, _)) => match record.state {
            DataState::Ok => Ok(record),
            DataState::Tainted { .. } => Err("it was left by a migration that did not end well".to_owned()),
        },
        Ok(replicated::Kept::Missing) => Err("it has no version.json".to_owned()),
        Ok(replicated::Kept::Damaged(why)) => Err(format!("its version.json can't be understood: {why}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes over data whose record is missing or damaged, as data of a given version.
pub fn adopt_data(device: &Device, version: &Version, witness: &dyn Witness) -> Result<()> {
    refuse_while_workload_runs(device)?;
    let executor = Executor::open_patiently(device, witness)?;
    match &executor.survey().observed.data {
        Data::Absent => {
            return Err(Error::NotFound {
                what: format!("there is no data in {}", device.layout.data.display()),
                hint: "nothing needs to be adopted: the workload starts with none".to_owned(),
            });
        }
        Data::Present(Recorded::Known(record)) if record.state == DataState::Ok => {
            return Err(Error::Refused {
                what: format!(
                    "the data is already on record, as {} of {}",
                    record.version, record.owner.deployment
                ),
                hint: "move version.json away first if that is wrong".to_owned(),
            });
        }
        _ => {}
    }
    let deployment = DeploymentId::new(format!("adopted-{version}")).map_err(|error| Error::Refused {
        what: error.to_string(),
        hint: "give a plain version, such as 4.14.0".to_owned(),
    })?;
    let record =
        DataRecord { version: version.clone(), owner: Owner { deployment, seq: None }, state: DataState::Ok };
    replicated::write(&device.layout.version(), &version_file::render(&record, None))
        .during(Doing::Records)?;
    executor.log("adopt", None, &format!("the data was taken over as {version}"), "done");
    Ok(())
}
