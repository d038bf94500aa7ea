//! An appliance of this machine, as what the agent moves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ::agent::machine::{Applied, Machine, MachineError, Replaced, Running};
use ::agent::precondition;
use ::agent::quarantine::{Checked, RELEASE_KEYS, RunningKeys};
use ::upgrade::commands::{self, Request, Upgraded};
use ::upgrade::settings::Settings;
use ::upgrade::{Appliance, Error, Options, Witness, history_since};
use logic::agent::{Found, Outcome, Precondition, Transaction, Under};
use logic::exit::Exit;
use logic::graph::release::ReleaseMetadata;
use logic::upgrade::{ApplianceName, Kind, Step, Transaction as Begun, Way};
use semver::{BuildMetadata, Version};

use super::gate;
use super::itself::Itself;
use crate::bring;

const METADATA: &str = "release-manifests/release-metadata";
const METADATA_BYTES: u64 = 1 << 20;

const ROLLBACK: &str = "rollback";
const SPACE: &str = "appliance-space";
/// What an appliance is looked at for before it is moved, by name.
pub const PRECONDITIONS: [&str; 3] = [ROLLBACK, SPACE, precondition::STORAGE_GATE];

#[derive(Clone)]
pub struct Host {
    pub settings: Settings,
    pub name: ApplianceName,
    pub options: Options,
    /// The agent's own program.
    pub itself: Arc<Itself>,
    /// Left free where the appliance is.
    pub reserve: u64,
    /// Of the cluster whose storage is asked about, where a release asks for that.
    pub storage: ::storage::settings::Settings,
}

/// Tells the agent what is done; nothing stops it: whoever stops the agent leaves the transaction to the next one.
struct Telling<'a> {
    said: &'a (dyn Fn(&str) + Send + Sync),
    never: AtomicBool,
}

impl Witness for Telling<'_> {
    fn step(&self, number: usize, of: usize, step: Step, way: Way) {
        let verb = if way == Way::Back { "undo: " } else { "" };
        (self.said)(&format!("{verb}{} ({number} of {of})", step.name()));
    }

    fn note(&self, text: &str) {
        (self.said)(text);
    }

    fn stop(&self) -> &AtomicBool {
        &self.never
    }

    fn abandon(&self) -> &AtomicBool {
        &self.never
    }
}

fn failed(error: &Error) -> MachineError {
    // A release that can't be used here will not be usable in a minute either.
    let passing =
        matches!(error.exit(), Exit::TryAgain | Exit::Interrupted | Exit::Unexpected | Exit::RollbackFailed);
    MachineError { why: ::upgrade::chain(error), way_out: error.hint(), passing }
}

impl Host {
    fn open(&self) -> Result<Appliance, MachineError> {
        Appliance::open(&self.settings, &self.name).map_err(|error| failed(&error))
    }

    fn observed(&self) -> Result<Running, MachineError> {
        running(&self.open()?)
    }

    fn history(&self, since: u64) -> Result<(u64, Vec<::upgrade::HistoryEntry>), MachineError> {
        history_since(&self.open()?.layout, since).map_err(|error| failed(&error))
    }

    fn find(&self, under: &Under) -> Result<Found, MachineError> {
        let appliance = self.open()?;
        let busy = appliance.is_held().map_err(|error| failed(&error))?;
        if busy {
            let why = format!("somebody is at work on {}", self.name);
            return Err(MachineError {
                why,
                way_out: "it goes on when they are done".to_owned(),
                passing: true,
            });
        }
        let begun = appliance.transaction().map_err(|error| failed(&error))?;
        let (_, entries) = self.history(under.since)?;
        let running = self.observed()?.version;
        let ours = |entry: &&::upgrade::HistoryEntry| {
            by_tag(entry.to.tag()).is_ok_and(|version| version == under.target.version)
        };
        let transaction = match entries.iter().rev().find(ours) {
            _ if begun.is_some_and(|begun| is_of(&begun, under.target.digest())) => Transaction::InProgress,
            Some(entry) if entry.committed && entry.unproven => Transaction::Unproven,
            Some(entry) if entry.committed => Transaction::Committed,
            Some(entry) => Transaction::RolledBack { why: entry.why.clone() },
            None => Transaction::None,
        };
        Ok(Found { running, transaction })
    }

    fn upgrade(
        &self,
        release: &Checked,
        said: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Applied, MachineError> {
        let witness = Telling { said, never: AtomicBool::new(false) };
        let mut held = self.open()?.hold().map_err(|error| failed(&error))?;
        let bring = bring::by(&self.settings);
        // Of the gate the agent has asked by itself, and a person may have passed over it.
        let (reference, options) = (&release.reference, self.options.clone());
        let request = Request { reference, options, bring: &bring, gate: None };
        if held.interrupted.as_ref().is_some_and(|other| !is_of(other, &release.digest)) {
            let (why, way_out) = self.somebody_elses();
            return Err(MachineError { why, way_out, passing: true });
        }
        // What was interrupted before there was anything to go back to is cleared away by the new one.
        let ended = match held.interrupted.as_ref().is_some_and(|begun| begun.snapshot_taken) {
            true => commands::resume(&mut held, &request, &witness),
            false => commands::upgrade(&mut held, &request, &witness),
        };
        match ended {
            Ok(Upgraded::Moved { unproven: true, .. }) => Ok(Applied::Ended(Outcome::switched_off())),
            Ok(_) => Ok(Applied::Ended(Outcome::Completed)),
            Err(Error::Undone { why, .. }) => Ok(Applied::Ended(Outcome::RolledBack { why })),
            Err(Error::Rebooting { .. } | Error::Abandoned { .. }) => Ok(Applied::Interrupted),
            Err(error) => Err(failed(&error)),
        }
    }

    fn back(&self, from: &Version, said: &(dyn Fn(&str) + Send + Sync)) -> Result<(), MachineError> {
        let witness = Telling { said, never: AtomicBool::new(false) };
        let mut held = self.open()?.hold().map_err(|error| failed(&error))?;
        if held.interrupted.is_none() && self.observed()?.version != *from {
            return Ok(());
        }
        commands::roll_back(&mut held, &self.options, &witness).map(drop).map_err(|error| failed(&error))
    }

    /// An interrupted upgrade that is not the agent's, and what is to be done about it.
    fn somebody_elses(&self) -> (String, String) {
        let why = format!("an upgrade of {} was interrupted", self.name);
        (why, format!("`holdfast upgrade {0} --resume`, or `holdfast upgrade {0} --rollback`", self.name))
    }

    fn rollback_possible(&self) -> Precondition {
        let look = || -> Result<bool, MachineError> {
            let appliance = self.open()?;
            Ok(appliance.transaction().map_err(|error| failed(&error))?.is_some())
        };
        match look() {
            Ok(false) => precondition::met(ROLLBACK),
            Ok(true) => {
                let (why, way_out) = self.somebody_elses();
                precondition::unmet(ROLLBACK, why, way_out)
            }
            Err(error) => precondition::unknown(ROLLBACK, error.why, error.way_out),
        }
    }
}

/// What an appliance runs.
pub fn running(appliance: &Appliance) -> Result<Running, MachineError> {
    let image = appliance.current().map_err(|error| failed(&error))?;
    let tree = appliance.layout.release(&image.id);
    let version = match metadata(&tree)? {
        Some(metadata) => plain(metadata.version),
        // A release that was made without a graph in mind.
        None => by_tag(image.version.tag())?,
    };
    let keys = Some(tree.join(RELEASE_KEYS)).filter(|keys| keys.is_dir()).map(RunningKeys::At);
    Ok(Running { version, digest: None, keys })
}

/// Whether a transaction is one that moves to this image.
fn is_of(transaction: &Begun, digest: &str) -> bool {
    let begin = &transaction.begin;
    begin.kind == Kind::Upgrade && begin.reference.rsplit_once('@').is_some_and(|(_, of)| of == digest)
}

/// Of a release that stands somewhere; none where it has no such file.
fn metadata(tree: &Path) -> Result<Option<ReleaseMetadata>, MachineError> {
    let path = tree.join(METADATA);
    let damaged = |why: String| MachineError {
        why: format!("{}: {why}", path.display()),
        way_out: "`holdfast upgrade` to a whole release".to_owned(),
        passing: false,
    };
    let bytes =
        disk::durable::read_limited(&path, METADATA_BYTES).map_err(|error| damaged(error.to_string()))?;
    bytes.map(|bytes| serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))).transpose()
}

/// What is behind `+` names an architecture, and graphs tell releases apart without it.
fn plain(version: Version) -> Version {
    Version { build: BuildMetadata::EMPTY, ..version }
}

fn by_tag(tag: &str) -> Result<Version, MachineError> {
    Version::parse(tag.strip_prefix('v').unwrap_or(tag)).map(plain).map_err(|error| MachineError {
        why: format!("the release {tag:?} does not say its version: {error}"),
        way_out: format!("give the release a {METADATA}, or a tag like v1.2.0"),
        passing: false,
    })
}

/// Appliances are moved by functions that wait; the agent has other things to do meanwhile.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, MachineError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| MachineError {
        why: error.to_string(),
        way_out: "see the log".to_owned(),
        passing: true,
    })
}

impl Machine for Host {
    async fn running(&self) -> Result<Running, MachineError> {
        let this = self.clone();
        waiting(move || this.observed()).await?
    }

    async fn ended(&self) -> Result<u64, MachineError> {
        let this = self.clone();
        Ok(waiting(move || this.history(u64::MAX)).await??.0)
    }

    async fn found(&self, under: &Under) -> Result<Found, MachineError> {
        let (this, under) = (self.clone(), under.clone());
        waiting(move || this.find(&under)).await?
    }

    async fn preconditions(&self, _under: &Under, release: &Checked) -> Vec<Precondition> {
        let (this, release) = (self.clone(), release.clone());
        let found = waiting(move || {
            let directory = &this.settings.directory;
            let room = precondition::free_space(SPACE, directory, &release, this.reserve);
            let gate = gate::storage(&release.tree, &this.storage);
            [Some(this.rollback_possible()), Some(room), gate].into_iter().flatten().collect()
        });
        found.await.unwrap_or_else(|error| vec![precondition::unknown("appliance", error.why, error.way_out)])
    }

    async fn replace_agent(&self, under: &Under, release: &Checked) -> Result<Replaced, MachineError> {
        let (itself, tree) = (Arc::clone(&self.itself), release.tree.clone());
        let version = under.target.version.clone();
        waiting(move || itself.take(&tree, &version)).await?
    }

    async fn apply(
        &self,
        _under: &Under,
        release: &Checked,
        said: &(dyn Fn(&str) + Send + Sync),
        _stop: &AtomicBool,
    ) -> Result<Applied, MachineError> {
        let (this, release) = (self.clone(), release.clone());
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<String>();
        let work = waiting(move || this.upgrade(&release, &|line| drop(tell.send(line.to_owned()))));
        tokio::pin!(work);
        let applied = loop {
            tokio::select! {
                Some(line) = told.recv() => said(&line),
                applied = &mut work => break applied??,
            }
        };
        while let Ok(line) = told.try_recv() {
            said(&line);
        }
        Ok(applied)
    }

    async fn roll_back(
        &self,
        from: &Version,
        said: &(dyn Fn(&str) + Send + Sync),
        _stop: &AtomicBool,
    ) -> Result<(), MachineError> {
        said(&format!("taking {} one step back", self.name));
        let (this, from) = (self.clone(), from.clone());
        waiting(move || this.back(&from, &|line| tracing::info!("{line}"))).await??;
        self.settle().await;
        Ok(())
    }

    async fn settle(&self) {
        let this = self.clone();
        let settled = waiting(move || this.observed().map(|running| this.itself.settle(&running.version)));
        if let Err(error) | Ok(Err(error)) = settled.await {
            tracing::warn!(cause = %error, "whose agent is in place can't be found out");
        }
    }
}
