//! Carries out a plan, one atomic change after the other, and nothing that is not in it.
//!
//! Architecture invariant: there are no choices here. What to do was decided in `logic`; how to do it safely on this
//! file system is all that is left.

mod build;
mod places;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use disk::durable::{sweep_temporaries, sync_dir, sync_fs, write_durably};
use disk::tree::{self, Copied, Manifest, Progress};
use disk::{Journal, Lock};
use logic::exit::Exit;
use logic::guard::{
    CopyKind, CopyRecord, DataRecord, DataState, Effect, Operation, Outcome, Owner, Place, Plan, PlannedStep,
    PreRun, RestoreRequest, Seq, Step, Wanted, effects,
};
use logic::version::Version;

use crate::clock;
use crate::device::{Device, JournalEntry, Survey, exists};
use crate::error::{Doing, Error, Result, While};
use crate::records::actions::{self, Action};
use crate::records::copy_file::{self, CopyFile};
use crate::records::health_file::HealthFile;
use crate::records::{replicated, request_file, version_file};

/// How long a verdict waits for a lock, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// How a copy is called in `.staging` while a move across file systems is under way.
const MOVING: &str = "moving-";

/// Told what happens while it happens.
pub trait Witness: Progress {
    fn step_begins(&self, step: &PlannedStep) {
        let _ = step;
    }
    fn note(&self, text: &str) {
        let _ = text;
    }
    /// Raised when the work should end early.
    fn stop_flag(&self) -> Option<&AtomicBool> {
        None
    }
}

impl Witness for () {}

pub struct Executor<'a> {
    device: &'a Device,
    witness: &'a dyn Witness,
    survey: Survey,
    journal: Journal<JournalEntry>,
    /// What the last `Build` brought, until it is committed.
    built: Option<Copied>,
    seq: Seq,
    _lock: Lock,
}

impl<'a> Executor<'a> {
    /// Takes the lock, then looks: what is planned from [`Executor::survey`] is what is there.
    pub fn open(device: &'a Device, witness: &'a dyn Witness) -> Result<Self> {
        let layout = &device.layout;
        create_private_dir(&layout.backups)?;
        let lock = take_lock(device)?;
        for dir in [layout.records(), layout.staging(), layout.backups.join(".generations")] {
            create_private_dir(&dir)?;
        }
        let journal = match Journal::open(&layout.journal()) {
            Ok((journal, _)) => journal,
            Err(disk::Error::JournalDamaged { .. } | disk::Error::TooLarge { .. }) => {
                // The plan blocks on this; nothing may be written until somebody has looked.
                let survey = device.survey()?;
                let why = match survey.observed.metadata {
                    logic::guard::Metadata::Damaged { why, .. } => why,
                    logic::guard::Metadata::Readable => "it changed while it was read".to_owned(),
                };
                return Err(Error::Damaged { file: layout.journal().display().to_string(), why });
            }
            Err(error) => return Err(error).during(Doing::Records),
        };
        // What a write left that was cut off: under the lock, nobody else is writing here.
        let (beside_data, _) = layout.incoming_names();
        for dir in [&layout.backups, &layout.records(), &layout.staging(), &layout.data, &beside_data] {
            if dir.is_dir()
                && let Err(error) = sweep_temporaries(dir)
            {
                witness.note(&crate::error_chain(&error));
            }
        }
        let survey = device.survey()?;
        for note in &survey.notes {
            witness.note(note);
        }
        let seq = survey.observed.boots.find(&device.boot, &device.host.booted).map_or(0, |boot| boot.seq);
        Ok(Self { device, witness, survey, journal, built: None, seq, _lock: lock })
    }

    /// As [`Executor::open`], but waits for a while for whoever holds the lock: verdicts must not be lost because a
    /// backup is being sealed.
    pub fn open_patiently(device: &'a Device, witness: &'a dyn Witness) -> Result<Self> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match Self::open(device, witness) {
                Err(Error::Locked { .. }) if Instant::now() < give_up => std::thread::sleep(PAUSE),
                result => return result,
            }
        }
    }

    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    pub(crate) fn health_mut(&mut self) -> &mut HealthFile {
        &mut self.survey.health
    }

    /// What was moved aside by a rename was not measured then; retention wants to know how large it is.
    pub fn measure_asides(&mut self) -> Result<()> {
        let records = self.device.layout.records();
        for file in &mut self.survey.records.files {
            if file.record.kind == CopyKind::Aside && file.record.bytes == 0 {
                let path = self.device.layout.path(&file.record.place);
                let manifest =
                    tree::survey(&path, self.device.threads, &Watch(self.witness)).during(Doing::Discard)?;
                (file.files, file.record.bytes) = manifest.totals();
                copy_file::commit(&records, file, None).during(Doing::Discard)?;
                if let Some(copy) = self.survey.observed.copies.get_mut(file.record.number) {
                    copy.bytes = file.record.bytes;
                }
            }
        }
        Ok(())
    }

    /// All steps, then the verdict on whether the workload may start.
    pub fn prepare(&mut self, plan: &Plan) -> Result<()> {
        self.seq = plan.seq;
        if let Err(error) = self.carry_out(&plan.steps) {
            // The cause is what counts; that the boot is not ready is also true when this can't be written.
            let _ = self.finish_pre_run(false);
            return Err(error);
        }
        match &plan.outcome {
            Outcome::Allow => {
                if !plan.steps.is_empty() {
                    self.finish_pre_run(true)?;
                }
                self.log("pre-run", Some(plan.branch.to_string()), &plan.reason, "ready");
                Ok(())
            }
            Outcome::Block(block) => {
                if block.rule.exit() != Exit::MetadataDamaged
                    || self.survey.health.boots.get(self.seq).is_some()
                {
                    self.finish_pre_run(false)?;
                }
                self.log("pre-run", Some(plan.branch.to_string()), &block.why, "blocked");
                Err(Error::Blocked(block.clone()))
            }
        }
    }

    /// Steps outside a boot's preparation: an administrator's restore, retention.
    pub fn carry_out(&mut self, steps: &[PlannedStep]) -> Result<()> {
        for planned in steps {
            self.witness.step_begins(planned);
            self.finish_swap(&planned.step)?;
            let result = effects(&planned.step).iter().try_for_each(|effect| self.perform(effect));
            let outcome = match &result {
                Ok(()) => "done".to_owned(),
                Err(error) => format!("failed: {}", crate::error_chain(error)),
            };
            self.log(name_of(&planned.step), Some(planned.branch.to_string()), &planned.reason, &outcome);
            if let Err(error) = result {
                self.undo(&planned.step);
                return Err(error);
            }
        }
        Ok(())
    }

    pub fn set_seq(&mut self, seq: Seq) {
        self.seq = seq;
    }

    /// After a failure: put things right now if that is possible; otherwise the next start does it from the journal.
    fn undo(&mut self, step: &Step) {
        if !matches!(step, Step::Operate(_)) {
            return;
        }
        let Ok(now) = self.device.survey() else { return };
        if let Some(unfinished) = now.observed.unfinished {
            let step = Step::Recover { operation: unfinished.operation, finish: unfinished.decided };
            let _ = effects(&step).iter().try_for_each(|effect| self.perform(effect));
        }
    }

    fn perform(&mut self, effect: &Effect) -> Result<()> {
        let layout = &self.device.layout;
        match effect {
            Effect::RecordBoot { seq } => self.record_boot(*seq),
            Effect::FinishPreRun { ready, .. } => self.finish_pre_run(*ready),
            Effect::Begin(operation) => self.begin(operation),
            Effect::End => {
                // While the journal still says that there is something to tidy.
                self.sweep_moves()?;
                copy_file::sweep_manifests(&layout.records()).during(Doing::Records)?;
                self.journal.clear().during(Doing::Records)
            }
            Effect::Build { from: Place::Data, to } => self.build_backup(to),
            Effect::Build { from, to } => self.build_incoming(from, to),
            Effect::Commit(copy) => self.commit(copy),
            Effect::Relabel { number, place } => self.relabel(*number, place),
            Effect::Forget { number } => copy_file::forget(&layout.records(), *number).during(Doing::Records),
            Effect::Move { from, to } => self.relocate(from, to),
            Effect::Exchange { incoming } => self.exchange(*incoming),
            Effect::Remove { place } => self.remove(place),
            Effect::StampAssumed { version, deployment } => self.stamp(DataRecord {
                version: version.clone(),
                owner: Owner { deployment: deployment.clone(), seq: None },
                state: DataState::Ok,
            }),
            Effect::StampMigrating { from, to, base, seq, deployment } => self.stamp(DataRecord {
                version: from.clone(),
                owner: Owner { deployment: deployment.clone(), seq: Some(*seq) },
                state: DataState::Tainted {
                    failed: false,
                    from: from.clone(),
                    to: to.clone(),
                    base: Some(*base),
                },
            }),
            Effect::RunMigration { from, to } => self.migrate(from, to),
            Effect::StampMigrated { version, seq, deployment } => {
                sync_fs(&layout.data).during(Doing::Migrate)?;
                self.stamp(DataRecord {
                    version: version.clone(),
                    owner: Owner { deployment: deployment.clone(), seq: Some(*seq) },
                    state: DataState::Ok,
                })
            }
            Effect::PinRequest { number } => {
                let request = RestoreRequest { wanted: Wanted::Number(*number), at: clock::now() };
                write_durably(&layout.request(), &request_file::render(&request)).during(Doing::Records)
            }
            Effect::ClearRequest => {
                copy_file::remove_file(&layout.request()).during(Doing::Records)?;
                sync_dir(&layout.backups).during(Doing::Records)
            }
        }
    }

    fn begin(&mut self, operation: &Operation) -> Result<()> {
        if let Operation::Backup { copy, make_room, .. } = operation {
            let target = self.device.layout.path(&copy.place);
            if make_room.is_empty() && exists(&target) {
                return Err(Error::Occupied { path: target });
            }
        }
        self.journal.append(&JournalEntry::Begin(Box::new(operation.clone()))).during(doing(operation))
    }

    fn commit(&mut self, copy: &CopyRecord) -> Result<()> {
        let built = self.built.take();
        let manifest = built.as_ref().and_then(|copied| copied.manifest.as_ref());
        let (files, bytes) = manifest.map_or((0, 0), Manifest::totals);
        let file = CopyFile {
            record: CopyRecord { bytes, ..copy.clone() },
            at: clock::now(),
            files,
            method: built.as_ref().map_or("rename".to_owned(), |copied| copied.method.to_string()),
        };
        copy_file::commit(&self.device.layout.records(), &file, manifest).during(Doing::Backup)
    }

    fn relabel(&mut self, number: Seq, place: &Place) -> Result<()> {
        let records = copy_file::load_all(&self.device.layout.records()).during(Doing::Records)?;
        let Some(mut file) = records.files.into_iter().find(|file| file.record.number == number) else {
            return Ok(());
        };
        file.record.place = place.clone();
        copy_file::commit(&self.device.layout.records(), &file, None).during(Doing::Records)
    }

    fn stamp(&self, record: DataRecord) -> Result<()> {
        let bytes = version_file::render(&record, Some(&self.device.boot));
        replicated::write(&self.device.layout.version(), &bytes).during(Doing::Migrate)
    }

    fn migrate(&mut self, from: &Version, to: &Version) -> Result<()> {
        let result = self.device.migration.run(&self.device.layout.data, from, to, self.witness.stop_flag());
        let why = match result {
            Ok(output) => {
                if !output.is_empty() {
                    self.log("migration-output", None, &output, "done");
                }
                return Ok(());
            }
            Err(_) if self.witness.cancelled() => return Err(Error::Interrupted),
            Err(why) => why,
        };
        // The state says "failed" instead of "migrating" only for people; both lead back to the base.
        let path = self.device.layout.version();
        if let Ok(replicated::Kept::Whole(mut record)) =
            replicated::read(&path, version_file::LIMIT, version_file::parse)
            && let DataState::Tainted { failed, .. } = &mut record.state
        {
            *failed = true;
            let _ = self.stamp(record);
        }
        Err(Error::Migration { from: from.to_string(), to: to.to_string(), why })
    }

    fn record_boot(&mut self, seq: Seq) -> Result<()> {
        let (boot, deployment) = (&self.device.boot, &self.device.host.booted);
        let boots = &mut self.survey.health.boots;
        let entered = boots.enter(seq, boot, deployment, &clock::now());
        if let Some(record) = boots.get_mut(entered) {
            record.pre_run = PreRun::Begun;
        }
        self.device.trim(boots, &self.survey.observed);
        write_health(self.device, &self.survey.health)
    }

    fn finish_pre_run(&mut self, ready: bool) -> Result<()> {
        if let Some(record) = self.survey.health.boots.get_mut(self.seq) {
            record.pre_run = if ready { PreRun::Ready } else { PreRun::Failed };
        }
        write_health(self.device, &self.survey.health)
    }

    /// A log that can't be written must not keep a device from booting.
    pub fn log(&self, step: &str, branch: Option<String>, reason: &str, outcome: &str) {
        let action = Action {
            when: clock::now(),
            boot: self.device.boot.clone(),
            seq: self.seq,
            deployment: self.device.host.booted.clone(),
            step: step.to_owned(),
            branch,
            reason: reason.to_owned(),
            outcome: outcome.to_owned(),
        };
        if let Err(error) = actions::append(&self.device.layout.actions(), &action) {
            self.witness.note(&format!("actions.log can't be written: {error}"));
        }
    }
}

/// Hands progress through without the rest of the witness.
pub(crate) struct Watch<'a>(pub(crate) &'a dyn Witness);

impl Progress for Watch<'_> {
    fn advance(&self, files: u64, bytes: u64) {
        self.0.advance(files, bytes);
    }
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

pub(crate) fn write_health(device: &Device, health: &HealthFile) -> Result<()> {
    replicated::write(&device.layout.health(), &health.render()).during(Doing::Records)
}

pub(crate) fn take_lock(device: &Device) -> Result<Lock> {
    let path = device.layout.lock();
    match Lock::try_acquire(&path).during(Doing::Records)? {
        Some(lock) => Ok(lock),
        None => {
            let holder = Lock::holder(&path).ok().flatten();
            let holder = holder.map_or("unknown".to_owned(), |holder| holder.to_string());
            Err(Error::Locked { holder })
        }
    }
}

/// Copies of the data hold what the data holds, secrets included: nobody else may look.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if exists(path) {
        return Ok(());
    }
    let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|error| disk::Error::io(disk::Operation::Create, path, error)).during(Doing::Records)?;
    sync_dir(path.parent().unwrap_or(Path::new("/"))).during(Doing::Records)
}

fn doing(operation: &Operation) -> Doing {
    match operation {
        Operation::Backup { .. } => Doing::Backup,
        Operation::MoveAside { .. } => Doing::MoveAside,
        Operation::Restore { .. } => Doing::Restore,
        Operation::Discard { .. } => Doing::Discard,
    }
}

pub fn name_of(step: &Step) -> &'static str {
    match step {
        Step::RecordBoot { .. } => "record-boot",
        Step::Recover { finish: true, .. } => "finish-interrupted",
        Step::Recover { finish: false, .. } => "undo-interrupted",
        Step::Sweep { .. } => "sweep",
        Step::Assume { .. } => "assume-version",
        Step::Operate(Operation::Backup { .. }) => "backup",
        Step::Operate(Operation::MoveAside { .. }) => "move-aside",
        Step::Operate(Operation::Restore { .. }) => "restore",
        Step::Operate(Operation::Discard { .. }) => "discard",
        Step::Migrate { .. } => "migrate",
        Step::PinRequest { .. } => "pin-request",
        Step::ClearRequest => "clear-request",
    }
}
