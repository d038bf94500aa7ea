//! Carries out a plan, one atomic change after the other, and nothing that is not in it.
//!
//! Architecture invariant: there are no choices here. What to do was decided in `logic`; how to do it safely on this
//! file system is all that is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use disk::durable::{exchange_durably, rename_durably, sweep_temporaries, sync_dir, sync_fs, write_durably};
use disk::tree::{self, Copied, CopyOptions, Manifest, Progress};
use disk::{Journal, Lock};
use logic::exit::Exit;
use logic::guard::{
    CopyKind, CopyRecord, DataRecord, DataState, Effect, Operation, Outcome, Owner, Place, Plan, PlannedStep,
    PreRun, RestoreRequest, Seq, Step, Wanted, effects,
};
use logic::version::Version;

use crate::clock;
use crate::device::{Device, JournalEntry, Survey, TreeMark, exists};
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

    /// Copies the data, or brings a recycled tree up to date with it.
    fn build_backup(&mut self, to: &Place) -> Result<()> {
        let layout = &self.device.layout;
        let (from, to) = (layout.data.clone(), layout.path(to));
        let options = self.copy_options();
        let recycled = exists(&to).then(|| self.recycled_manifest()).flatten();
        let copied = match recycled {
            Some(manifest) => tree::update(&from, &to, &manifest, &options, &self.watch()),
            None => {
                tree::remove(&to).during(Doing::Backup)?;
                self.check_room(Doing::Backup, &from, &layout.staging())?;
                tree::copy(&from, &to, &options, &self.watch())
            }
        };
        let copied = copied.during(Doing::Backup)?;
        self.report(&copied);
        self.built = Some(copied);
        Ok(())
    }

    /// The list of files of the generation that was given up for this backup.
    fn recycled_manifest(&self) -> Option<Manifest> {
        let journal = Journal::<JournalEntry>::read(&self.device.layout.journal()).ok()?;
        let old = journal.into_iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) => match *operation {
                Operation::Backup { recycle, .. } => recycle,
                _ => None,
            },
            _ => None,
        })?;
        Manifest::load(&copy_file::manifest_path(&self.device.layout.records(), old.number)).ok().flatten()
    }

    /// Which copy the restore under way is of.
    fn restored_number(&self) -> Seq {
        let journal = Journal::<JournalEntry>::read(&self.device.layout.journal()).unwrap_or_default();
        let number = journal.into_iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) => match *operation {
                Operation::Restore { source, .. } => Some(source),
                _ => None,
            },
            _ => None,
        });
        number.unwrap_or_default()
    }

    /// Copies a copy beside the data, and makes sure that it is what was once backed up.
    fn build_incoming(&mut self, from: &Place, to: &Place) -> Result<()> {
        let layout = &self.device.layout;
        let number = self.restored_number();
        // As it is now: an earlier step of the same plan may have given the copy another place, and its name to another.
        let records = copy_file::load_all(&layout.records()).during(Doing::Restore)?;
        if !records.files.iter().any(|file| file.record.number == number && file.record.place == *from) {
            let what = format!("it is not what stands in {}", layout.path(from).display());
            return Err(Error::CopyDamaged { number, what });
        }
        let (from, to) = (layout.path(from), layout.path(to));
        let parent = to.parent().unwrap_or(Path::new("/")).to_owned();
        tree::remove(&to).during(Doing::Restore)?;
        self.check_room(Doing::Restore, &from, &parent)?;
        let expected =
            Manifest::load(&copy_file::manifest_path(&layout.records(), number)).during(Doing::Restore)?;
        let copied = tree::copy(&from, &to, &self.copy_options(), &self.watch()).during(Doing::Restore)?;
        if let Some(expected) = expected
            && let Some(got) = &copied.manifest
            && let Some(what) = first_difference(&expected, got)
        {
            return Err(Error::CopyDamaged { number, what });
        }
        self.report(&copied);
        Ok(())
    }

    /// A copy is on disk when it returns: one `syncfs` for all of it.
    fn copy_options(&self) -> CopyOptions {
        CopyOptions { threads: self.device.threads, sync: true, ..CopyOptions::default() }
    }

    pub(crate) fn watch(&self) -> Watch<'a> {
        Watch(self.witness)
    }

    fn report(&self, copied: &Copied) {
        self.witness.note(&format!("{} files brought over by {}", copied.files, copied.method));
        for warning in copied.warnings.iter().take(10) {
            self.witness.note(&warning.to_string());
        }
    }

    fn check_room(&self, doing: Doing, from: &Path, to: &Path) -> Result<()> {
        if tree::fits_beyond_doubt(from, to).during(doing)? {
            return Ok(());
        }
        let need = tree::measure(from, to, self.device.threads, &self.watch()).during(doing)?;
        let free = tree::free_space(to).during(doing)?;
        if need.bytes > free.bytes || free.inodes.is_some_and(|inodes| need.inodes > inodes) {
            let path = to.to_owned();
            return Err(Error::NoRoom {
                doing,
                path,
                need: need.bytes,
                inodes: need.inodes,
                free: free.bytes,
            });
        }
        Ok(())
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

    /// One rename; across file systems, a complete copy under the new name, then the removal of the old.
    fn relocate(&mut self, from: &Place, to: &Place) -> Result<()> {
        let doing = if *from == Place::Data { Doing::MoveAside } else { Doing::Records };
        let layout = &self.device.layout;
        let (source, target) = (self.source_of(from), layout.path(to));
        if let Some(parent) = target.parent() {
            create_private_dir(parent)?;
        }
        let is_mounted_data = *from == Place::Data && layout.data_is_mount;
        if !exists(&target) && exists(&source) {
            if !is_mounted_data {
                match rename_durably(&source, &target) {
                    Err(error) if error.is_cross_device() => {}
                    result => return result.during(doing),
                }
            }
            let staged = layout.staging().join(format!("{MOVING}{}", file_name(&target)));
            tree::remove(&staged).during(doing)?;
            self.check_room(doing, &source, &layout.staging())?;
            tree::copy(&source, &staged, &self.copy_options(), &self.watch()).during(doing)?;
            rename_durably(&staged, &target).during(doing)?;
        }
        match is_mounted_data {
            true => self.empty_data(),
            // A rename leaves no source; a copy does, until here.
            false if *from == Place::Data || matches!(from, Place::Incoming(_)) => {
                tree::remove(&source).during(doing)?;
                // Before the journal forgets about it, which may be on another disk.
                sync_dir(source.parent().unwrap_or(Path::new("/"))).during(doing)
            }
            false => Ok(()),
        }
    }

    /// What an interrupted move across file systems has left.
    fn sweep_moves(&self) -> Result<()> {
        let staging = self.device.layout.staging();
        let Ok(entries) = fs::read_dir(&staging) else { return Ok(()) };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(MOVING))
        {
            tree::remove(&entry.path()).during(Doing::Records)?;
        }
        Ok(())
    }

    /// Where the tree of a place really is: what an exchange of contents took out of the data has a name of its own.
    fn source_of(&self, place: &Place) -> PathBuf {
        let layout = &self.device.layout;
        match place {
            Place::Incoming(number) if layout.data_is_mount => layout.outgoing(*number),
            place => layout.path(place),
        }
    }

    fn empty_data(&self) -> Result<()> {
        let data = &self.device.layout.data;
        let listed = fs::read_dir(data).map_err(|error| disk::Error::io(disk::Operation::List, data, error));
        for entry in listed.during(Doing::MoveAside)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(disk::RESERVED_PREFIX) {
                tree::remove(&entry.path()).during(Doing::MoveAside)?;
            }
        }
        sync_dir(data).during(Doing::MoveAside)
    }

    fn exchange(&mut self, number: Seq) -> Result<()> {
        let layout = &self.device.layout;
        let incoming = layout.path(&Place::Incoming(number));
        if layout.data_is_mount {
            self.journal.append(&JournalEntry::Swap).during(Doing::Restore)?;
            return self.swap_contents(number);
        }
        let mark = TreeMark::of(&incoming).during(Doing::Restore)?;
        self.journal.append(&JournalEntry::Exchange(mark)).during(Doing::Restore)?;
        match exists(&layout.data) {
            true => exchange_durably(&layout.data, &incoming).during(Doing::Restore)?,
            false => rename_durably(&incoming, &layout.data).during(Doing::Restore)?,
        }
        // An empty directory was in the data's place: nothing that anybody misses.
        if fs::read_dir(&incoming).is_ok_and(|mut entries| entries.next().is_none()) {
            tree::remove(&incoming).during(Doing::Restore)?;
        }
        Ok(())
    }

    /// An exchange of contents is many renames. Once it was begun it counts as done, so the rest is done first.
    fn finish_swap(&self, step: &Step) -> Result<()> {
        match step {
            Step::Recover { operation: Operation::Restore { incoming, .. }, finish: true }
                if self.device.layout.data_is_mount =>
            {
                self.swap_contents(*incoming)
            }
            _ => Ok(()),
        }
    }

    fn swap_contents(&self, number: Seq) -> Result<()> {
        let layout = &self.device.layout;
        let (incoming, outgoing) = (layout.path(&Place::Incoming(number)), layout.outgoing(number));
        // Without the one, all has moved already, and the other may be gone again.
        if exists(&incoming) {
            create_private_dir(&outgoing)?;
        }
        tree::swap_contents(&layout.data, &incoming, &outgoing).during(Doing::Restore)?;
        // All that was in it has moved; what is left is the vessel, with the mark that says so. The two must go in one
        // step: without the mark, what has come in would be taken for what must go out.
        let spent = layout.spent(number);
        if exists(&incoming) {
            rename_durably(&incoming, &spent).during(Doing::Restore)?;
        }
        tree::remove(&spent).during(Doing::Restore)?;
        if fs::read_dir(&outgoing).is_ok_and(|mut entries| entries.next().is_none()) {
            tree::remove(&outgoing).during(Doing::Restore)?;
        }
        sync_dir(&layout.data).during(Doing::Restore)
    }

    fn remove(&mut self, place: &Place) -> Result<()> {
        let path = self.device.layout.path(place);
        tree::remove_with(&path, self.device.threads, &self.watch()).during(Doing::Discard)
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

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The restored copy must have every entry that the backup had, with the same size and time.
fn first_difference(expected: &Manifest, got: &Manifest) -> Option<String> {
    if expected.entries().len() != got.entries().len() {
        return Some(format!("{} entries instead of {}", got.entries().len(), expected.entries().len()));
    }
    // The time of a directory says that somebody has been in it, not that anything is lost: whoever has mended a copy
    // by hand must be able to have it back.
    let differing = expected.entries().iter().zip(got.entries()).find(|(a, b)| {
        let other_time = a.mtime != b.mtime && a.kind != tree::Kind::Directory;
        a.path != b.path || a.kind != b.kind || a.size != b.size || a.mode != b.mode || other_time
    });
    differing.map(|(entry, _)| match &*entry.path {
        [] => "the directory itself".to_owned(),
        path => String::from_utf8_lossy(path).into_owned(),
    })
}
