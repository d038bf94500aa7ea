//! Carries a transaction out: asks `logic` for the next step, writes it down, does it, writes down that it is done.
//!
//! There are no choices here. What a step that failed means is asked too.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logic::upgrade::{
    Begin, ImageId, Kind, Next, Point, Record, SnapshotId, Step, Transaction, Trouble, Way, leftovers, next,
    trouble,
};
use program::Invocation;

use crate::appliance::{Appliance, Held, write};
use crate::configuration::key_of;
use crate::error::{Error, Result};
use crate::migration;
use crate::{backend, kubernetes, release, workload};

/// Room for the journal that is set aside at its beginning: a transaction writes a few kilobytes.
const JOURNAL_ROOM: u64 = 64 << 10;

/// Who watches.
pub trait Witness: Sync {
    /// `number` of `of`; the first is 1.
    fn step(&self, number: usize, of: usize, step: Step, way: Way);
    fn note(&self, text: &str);
    /// Raised when somebody wants it to end: it is undone.
    fn stop(&self) -> &AtomicBool;
    /// Raised when somebody insists: it is left as it is, and can be resumed.
    fn abandon(&self) -> &AtomicBool;
}

/// How a transaction is to be carried out.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// To become ready in, instead of what the release says.
    pub timeout: Option<Duration>,
    /// Secrets that replace those in the configuration.
    pub secrets: BTreeMap<String, String>,
    /// What stores Kubernetes objects anew, for releases that want it. On its standard input it finds which servers to
    /// start, `{"etcd": […], "kube-apiserver": […], "kubeconfig": "…"}`; exit code 0: all of them are.
    pub kubernetes: Option<Invocation>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Committed(Begin),
    Undone { begin: Begin, why: String },
}

impl End {
    /// The new release is in place, and nothing has proved that it becomes ready: what was off was not started.
    pub fn is_unproven(&self) -> bool {
        matches!(self, Self::Committed(begin) if !begin.was_on)
    }
}

/// What comes after a step that failed.
#[derive(PartialEq, Eq)]
enum After {
    GoOn,
    Leave,
}

pub struct Carrier<'a> {
    held: &'a mut Held,
    transaction: Transaction,
    options: &'a Options,
    witness: &'a dyn Witness,
    /// That a step is done, not yet on disk. It gets there with the record that follows, before anything else is done:
    /// lost, it means that the step is done again, which is as good.
    unwritten: Option<Record>,
}

impl<'a> Carrier<'a> {
    /// From here on something is in progress.
    pub fn begin(
        held: &'a mut Held,
        begin: Begin,
        options: &'a Options,
        witness: &'a dyn Witness,
    ) -> Result<Self> {
        let record = Record::Begin(Box::new(begin));
        held.journal.reserve(JOURNAL_ROOM)?;
        held.journal.append(&record)?;
        let transaction = Transaction::from_records(&[record]).ok_or(Error::NothingBegun)?;
        Ok(Self { held, transaction, options, witness, unwritten: None })
    }

    /// Of what another process began.
    pub fn take_over(held: &'a mut Held, options: &'a Options, witness: &'a dyn Witness) -> Result<Self> {
        let transaction = held.interrupted.take().ok_or(Error::NothingBegun)?;
        let mut carrier = Self { held, transaction, options, witness, unwritten: None };
        carrier.held.journal.reserve(JOURNAL_ROOM)?;
        carrier.record(Record::TakenOver)?;
        Ok(carrier)
    }

    pub fn undo(&mut self, why: &str) -> Result<()> {
        if self.transaction.way == Way::Back {
            return Ok(());
        }
        self.record(Record::Undo { why: why.to_owned() })
    }

    pub fn resume(&mut self) -> Result<()> {
        self.record(Record::Resume)
    }

    fn record(&mut self, record: Record) -> Result<()> {
        let records: Vec<Record> = self.unwritten.take().into_iter().chain([record.clone()]).collect();
        self.held.journal.append_all(&records)?;
        self.transaction.add(&record);
        Ok(())
    }

    fn done(&mut self, step: Step) {
        let record = Record::Done(step);
        self.transaction.add(&record);
        self.unwritten = Some(record);
    }

    /// To the end of its way, or of the way back.
    pub fn run(mut self) -> Result<End> {
        loop {
            let forward = self.transaction.way != Way::Back && !self.transaction.committed;
            if self.witness.abandon().load(Ordering::Relaxed) {
                if let Some(done) = self.unwritten.take() {
                    self.held.journal.append(&done)?;
                }
                return Err(Error::Abandoned { name: self.appliance().identity.name.clone() });
            }
            if forward && self.witness.stop().load(Ordering::Relaxed) {
                self.undo("it was interrupted")?;
                continue;
            }
            let step = match next(&self.transaction) {
                Next::Do(step) => step,
                Next::Committed | Next::Undone => return self.over(),
            };
            let steps = self.transaction.steps();
            let number = steps.iter().position(|one| *one == step).map_or(0, |at| at + 1);
            self.record(Record::Doing(step))?;
            self.witness.step(number, steps.len(), step, self.transaction.way);
            match self.perform(step) {
                Ok(()) => self.done(step),
                Err(error) => {
                    if self.failed(step, error)? == After::Leave {
                        return Ok(self.end());
                    }
                }
            }
        }
    }

    fn failed(&mut self, step: Step, error: Error) -> Result<After> {
        // What comes next is in the journal already: whoever starts after the boot goes on from there.
        if matches!(error, Error::Backend(backend::Error::Rebooting)) {
            return Err(Error::Rebooting { name: self.appliance().identity.name.clone() });
        }
        // Somebody insists: nothing has failed.
        if self.witness.abandon().load(Ordering::Relaxed) {
            return Err(Error::Abandoned { name: self.appliance().identity.name.clone() });
        }
        let why = format!("{step}: {}", chain(&error));
        let means = trouble(&self.transaction, step);
        self.record(Record::Failed { step, why: why.clone() })?;
        match means {
            Trouble::Undo => {
                self.witness.note(&format!("{why}; putting everything back"));
                self.undo(&why)?;
                Ok(After::GoOn)
            }
            Trouble::Stuck => {
                let (name, release) =
                    (self.appliance().identity.name.clone(), &self.transaction.begin.from.version);
                Err(Error::Stuck { name, release: release.to_string(), source: Box::new(error) })
            }
            Trouble::Untidy => {
                // Nothing after it is done either: what is left to tidy depends on the rollback point being kept first. The
                // journal says where whoever comes next goes on.
                self.witness.note(&format!("left for the next command: {why}"));
                Ok(After::Leave)
            }
        }
    }

    fn over(self) -> Result<End> {
        let end = self.end();
        crate::history::add(&self.held.appliance.layout, &end)?;
        self.held.journal.clear()?;
        Ok(end)
    }

    fn end(&self) -> End {
        let begin = self.transaction.begin.clone();
        match self.transaction.committed {
            true => End::Committed(begin),
            false => End::Undone { begin, why: self.transaction.why.clone().unwrap_or_default() },
        }
    }

    fn appliance(&self) -> &Appliance {
        &self.held.appliance
    }

    fn perform(&mut self, step: Step) -> Result<()> {
        let appliance = &self.held.appliance;
        let (backend, begin) = (&appliance.backend, &self.transaction.begin);
        match step {
            Step::Stage => {
                backend.stage_image(&begin.to.id, &appliance.layout.incoming())?;
                // What lies there now is what was asked for.
                let found = release::read(&appliance.layout.release(&begin.to.id))?.version;
                if found != begin.to.version {
                    return Err(Error::OtherRelease {
                        asked: begin.to.version.to_string(),
                        found: found.to_string(),
                    });
                }
            }
            Step::Prepare => {
                if begin.was_on {
                    backend.prepare_snapshot(&begin.snapshot)?;
                }
            }
            Step::PowerOff => backend.power_off()?,
            Step::Snapshot => backend.snapshot(&begin.snapshot, &begin.from.id)?,
            Step::Migrate => migration::write(appliance, &begin.to, self.options, self.witness.stop())?,
            Step::Reconfigure => backend.reconfigure(&begin.to.id)?,
            Step::Revert => {
                kubernetes::at_rest(&appliance.layout)?;
                backend.revert(&begin.snapshot)?;
            }
            Step::Return => {
                let point = begin.point.as_ref().ok_or(Error::NothingBegun)?;
                backend.revert(&point.snapshot)?;
            }
            Step::PowerOn => backend.power_on()?,
            Step::ProveReady => {
                // On the way back only somebody who insists is heard.
                // What was asked for is about the way forward: the old release has the time that it says it needs.
                let (stop, timeout) = match self.transaction.way {
                    Way::Back => (self.witness.abandon(), None),
                    Way::Forward | Way::Again => (self.witness.stop(), self.options.timeout),
                };
                backend.wait_ready(timeout, stop)?;
            }
            Step::Commit => {}
            Step::KeepPoint => keep_point(appliance, begin)?,
            Step::Tidy => tidy(appliance)?,
        }
        Ok(())
    }
}

fn keep_point(appliance: &Appliance, begin: &Begin) -> Result<()> {
    let path = appliance.layout.point();
    match begin.kind {
        Kind::Upgrade => {
            let (snapshot, image, left_for) = (begin.snapshot.clone(), begin.from.clone(), begin.to.clone());
            write(&path, &Point { snapshot, image, left_for })
        }
        Kind::Rollback => match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(disk::Error::io(disk::Operation::Remove, &path, error).into())
            }
            _ => Ok(disk::durable::sync_dir(appliance.layout.root())?),
        },
    }
}

/// Removes what nothing leads to any more. Only when nothing is in progress, or at the end of it.
pub fn tidy(appliance: &Appliance) -> Result<()> {
    let (layout, backend) = (&appliance.layout, &appliance.backend);
    let description = backend.describe()?;
    let current = description.current.ok_or(backend::Error::NoCurrent)?;
    let point = appliance.point()?;
    let makers: Vec<ImageId> = workload::list(layout)?.into_iter().map(|record| record.release.id).collect();
    let snapshots: Vec<SnapshotId> = description.snapshots.into_iter().map(|snapshot| snapshot.id).collect();
    let left = leftovers(&current, point.as_ref(), &makers, &snapshots, &description.images);
    for snapshot in &left.snapshots {
        backend.delete_snapshot(snapshot)?;
    }
    for image in &left.images {
        backend.remove_image(image)?;
    }
    for leftover in [layout.incoming(), layout.scratch()] {
        remove_tree(&leftover)?;
    }
    for dir in
        [layout.root().to_owned(), layout.releases(), layout.snapshots(), layout.state(), layout.keys()]
    {
        sweep(&dir)?;
    }
    tidy_keys(appliance, point.as_ref())
}

/// What was being made or removed when its process died has a reserved name.
fn sweep(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(disk::Error::io(disk::Operation::List, dir, error).into()),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(disk::RESERVED_PREFIX.as_bytes()) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Keys that neither the configuration in force nor the rollback point's is sealed with.
fn tidy_keys(appliance: &Appliance, point: Option<&Point>) -> Result<()> {
    let layout = &appliance.layout;
    let mut needed = vec![key_of(&layout.state())?.to_string()];
    if let Some(point) = point {
        // Where its configuration cannot be read, no key is known to be of no use.
        let Ok(key) = key_of(&layout.snapshot(&point.snapshot).join("state")) else { return Ok(()) };
        needed.push(key.to_string());
    }
    let dir = layout.keys();
    let listed = std::fs::read_dir(&dir).map_err(|e| disk::Error::io(disk::Operation::List, &dir, e))?;
    for entry in listed.flatten() {
        if !needed.iter().any(|key| entry.file_name() == key.as_str()) {
            let path = entry.path();
            std::fs::remove_file(&path).map_err(|e| disk::Error::io(disk::Operation::Remove, &path, e))?;
        }
    }
    Ok(disk::durable::sync_dir(&dir)?)
}

pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).is_ok() {
        disk::tree::remove(path)?;
    }
    Ok(())
}

/// An error with all its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
