//! `pre-run` and `run`: what happens between the boot and the start of the workload.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use disk::Lock;
use logic::guard::{DataRecord, DataState, Owner, Plan, may_start, plan};

use crate::device::Device;
use crate::error::{Doing, Error, Result, While};
use crate::execute::{Executor, Witness, write_health};
use crate::records::{replicated, version_file};

/// Plans and carries out what must happen before the workload may start.
pub fn pre_run(device: &Device, witness: &dyn Witness, planned: impl FnOnce(&Plan)) -> Result<Plan> {
    refuse_while_workload_runs(device)?;
    let mut executor = Executor::open(device, witness)?;
    let plan = plan(&executor.survey().observed);
    planned(&plan);
    executor.prepare(&plan)?;
    Ok(plan)
}

/// Records who runs on the data from now on, then becomes the workload. Returns only if that fails.
pub fn run(device: &Device, command: &[OsString], witness: &dyn Witness) -> Result<()> {
    let run_lock = {
        let mut executor = Executor::open_patiently(device, witness)?;
        let seq = may_start(&executor.survey().observed).map_err(Error::NotReady)?;
        // First: data on which a workload runs already must not change hands.
        let run_lock = hold_run_lock(device)?;
        executor.set_seq(seq);
        let health = executor.health_mut();
        health.boots.started(seq);
        write_health(device, health)?;
        own_data(device, seq)?;
        executor.log("run", None, "the workload starts on data that fits it", "started");
        run_lock
    };
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    // The lock is held by whatever the workload is, until its last process ends.
    let _lock = run_lock;
    let source = Command::new(program).args(args).exec();
    Err(Error::Exec { program: program.to_string_lossy().into_owned(), source })
}

/// From here on the data is this boot's.
fn own_data(device: &Device, seq: u64) -> Result<()> {
    let data = &device.layout.data;
    std::fs::create_dir_all(data)
        .map_err(|error| disk::Error::io(disk::Operation::Create, data, error))
        .during(Doing::Records)?;
    let record = DataRecord {
        version: device.program.clone(),
        owner: Owner { deployment: device.host.booted.clone(), seq: Some(seq) },
        state: DataState::Ok,
    };
    replicated::write(&device.layout.version(), &version_file::render(&record, Some(&device.boot)))
        .during(Doing::Records)
}

fn hold_run_lock(device: &Device) -> Result<Lock> {
    let path = device.layout.run_lock();
    let lock = Lock::try_acquire(&path).during(Doing::Records)?.ok_or_else(|| workload_runs(device))?;
    lock.survive_exec(&path).during(Doing::Records)?;
    Ok(lock)
}

/// Data that is in use can be neither copied nor exchanged.
pub(super) fn refuse_while_workload_runs(device: &Device) -> Result<()> {
    let path = device.layout.run_lock();
    if !crate::device::exists(&path) {
        return Ok(());
    }
    match Lock::try_acquire(&path).during(Doing::Records)? {
        Some(_) => Ok(()),
        None => Err(workload_runs(device)),
    }
}

fn workload_runs(device: &Device) -> Error {
    let holder = Lock::holder(&device.layout.run_lock()).ok().flatten();
    Error::WorkloadRuns { holder: holder.map_or("unknown".to_owned(), |holder| holder.to_string()) }
}
