//! One image of the disk: its file, what is being done with it, and how it is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logic::images::{FileState, FileStatus, ImageId, ImageName, Seal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wire::images::Peer;

use super::error::{Failed, Refusal};
use super::rate::Meter;
use crate::file::{FileError, ImageFile, Shape};

/// Between two looks at how far a file is.
const GATHER: Duration = Duration::from_millis(10);

/// Tells everybody who watches that something changed.
#[derive(Debug, Clone, Default)]
pub struct Changes(watch::Sender<u64>);

impl Changes {
    pub fn tell(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// What is being done with an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Pulling,
    Syncing,
    Uploading,
    Verifying,
}

impl Doing {
    fn in_words(self) -> &'static str {
        match self {
            Self::Pulling => "pulled",
            Self::Syncing => "synced",
            Self::Uploading => "uploaded",
            Self::Verifying => "verified",
        }
    }
}

#[derive(Debug)]
struct Job {
    doing: Doing,
    cancel: CancellationToken,
    task: Option<JoinHandle<()>>,
}

/// What changes seldom, and would have to be read from the disk.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub seal: Option<Seal>,
    pub shape: Option<Shape>,
    pub real_size: u64,
}

#[derive(Debug, Default)]
struct State {
    job: Option<Job>,
    failed: Option<Failed>,
    /// Of the disk, when it is not the one that it should be.
    gone: Option<String>,
    facts: Facts,
    meter: Meter,
    sources: Vec<String>,
    /// To another manager; nothing is begun or sent until then.
    offered_until: Option<Instant>,
}

#[derive(Debug)]
pub struct Entry {
    pub name: ImageName,
    pub id: ImageId,
    pub file: Arc<ImageFile>,
    /// Who else of the site has it, or fetches it.
    pub peers: watch::Sender<Vec<Peer>>,
    changes: Changes,
    forgotten: CancellationToken,
    state: Mutex<State>,
}

/// Whether something may begin.
#[derive(Debug, PartialEq, Eq)]
pub enum Begin {
    Now,
    /// After what is being done was stopped.
    Instead,
}

impl Entry {
    pub fn new(file: Arc<ImageFile>, changes: Changes) -> Arc<Self> {
        let (name, id) = (file.name().clone(), file.id().clone());
        let (peers, forgotten) = (watch::Sender::default(), CancellationToken::new());
        Arc::new(Self { name, id, file, peers, changes, forgotten, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks: reads what changes seldom.
    pub fn refresh(&self) {
        let facts = Facts::of(&self.file);
        self.lock().facts = facts;
        self.changes.tell();
    }

    /// Keeps [`Facts`] true until the entry is forgotten.
    pub async fn follow(self: Arc<Self>) {
        let mut filled = self.file.filled();
        let mut seen = None;
        loop {
            let now = {
                let filled = filled.borrow_and_update();
                (filled.generation, filled.sealed, filled.downloaded, filled.checking)
            };
            if seen != Some(now) {
                let was_whole = seen.is_some_and(|(_, _, downloaded, _)| downloaded);
                // Whoever verified it has said more.
                if was_whole && !now.2 && !now.3 && !self.is_busy() && !self.has_failed() {
                    let left = self.file.filled_now().held;
                    let what =
                        if left == 0 { "the file is gone" } else { "some of its chunks turned out bad" };
                    self.fail(format!("{what}: it has to be fetched again"));
                }
                seen = Some(now);
                let entry = Arc::clone(&self);
                let _ = tokio::task::spawn_blocking(move || entry.refresh()).await;
            }
            tokio::select! {
                changed = filled.changed() => if changed.is_err() { return },
                () = self.forgotten.cancelled() => return,
            }
            // While it fills, every chunk that comes is a change; those that matter here are few.
            let filling = |filled: &crate::file::Filled| !filled.downloaded && !filled.checking;
            if filling(&filled.borrow()) {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    pub fn may_begin(&self, doing: Doing) -> Result<Begin, Refusal> {
        let state = self.lock();
        let name = || self.name.clone();
        if state.offered_until.is_some_and(|until| Instant::now() < until) {
            return Err(Refusal::Offered(name()));
        }
        match state.job.as_ref().map(|job| job.doing) {
            None => {}
            // The controller chose another puller: what was fetched is gone on from.
            Some(Doing::Syncing) if doing == Doing::Pulling => return Ok(Begin::Instead),
            Some(Doing::Pulling) if doing == Doing::Syncing => return Ok(Begin::Instead),
            Some(now) => return Err(Refusal::Busy { name: name(), doing: now.in_words() }),
        }
        if self.file.filled_now().downloaded && doing != Doing::Verifying {
            return Err(Refusal::Downloaded(name()));
        }
        Ok(Begin::Now)
    }

    /// Runs until it ends or is stopped. Why it failed is what people see.
    pub fn begin<F>(self: &Arc<Self>, doing: Doing, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = Result<(), Failed>> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        let running = work(cancel.clone());
        let (entry, cancelled) = (Arc::clone(self), cancel.clone());
        let mut state = self.lock();
        state.failed = None;
        state.meter.stop();
        let task = tokio::spawn(async move {
            let ended = running.await;
            let mut state = entry.lock();
            // Whoever stopped it has begun something else, or is about to.
            if !cancelled.is_cancelled() {
                state.job = None;
                state.failed = ended.err().map(Failed::limited);
                state.meter.stop();
                state.sources.clear();
            }
            match &state.failed {
                Some(Failed { why, .. }) => {
                    tracing::warn!(image = %entry.name, reason = why, "{} failed", doing.noun());
                }
                None => tracing::info!(image = %entry.name, "{} ended", doing.noun()),
            }
            drop(state);
            entry.changes.tell();
        });
        state.job = Some(Job { doing, cancel, task: Some(task) });
        drop(state);
        tracing::info!(image = %self.name, uuid = %self.id, "{} begins", doing.noun());
        self.changes.tell();
    }

    /// Stops what is being done, and waits for its end.
    pub async fn stop(&self) {
        let task = {
            let mut state = self.lock();
            let Some(job) = &mut state.job else { return };
            job.cancel.cancel();
            job.task.take()
        };
        if let Some(task) = task {
            let _ = task.await;
        }
        let mut state = self.lock();
        if state.job.as_ref().is_some_and(|job| job.cancel.is_cancelled()) {
            state.job = None;
            state.meter.stop();
            state.sources.clear();
        }
        drop(state);
        self.changes.tell();
    }

    /// Returns when nothing is being done.
    pub async fn until_idle(&self) {
        let mut changes = self.changes.subscribe();
        while self.is_busy() && changes.changed().await.is_ok() {}
    }

    /// Its followers end; nothing is begun any more.
    pub fn forget(&self) {
        self.forgotten.cancel();
        self.changes.tell();
    }

    pub fn is_busy(&self) -> bool {
        self.lock().job.is_some()
    }

    pub fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// Somebody else may take it over until then; or, with none, nobody.
    pub fn offer(&self, until: Option<Instant>) {
        self.lock().offered_until = until;
    }

    pub fn is_offered(&self) -> bool {
        self.lock().offered_until.is_some_and(|until| Instant::now() < until)
    }

    /// What looking at the file told: it can't be had, and why.
    pub fn fail(&self, reason: String) {
        self.lock().failed = Some(Failed::from(reason).limited());
        self.changes.tell();
    }

    pub fn disk_is(&self, gone: Option<&FileError>) {
        let reason = gone.map(|error| super::error::in_words(error, error.hint()));
        let mut state = self.lock();
        if state.gone != reason {
            state.gone = reason;
            drop(state);
            self.changes.tell();
        }
    }

    /// Where bytes come from now.
    pub fn come_from(&self, sources: Vec<String>) {
        let mut state = self.lock();
        if state.job.is_some() && state.sources != sources {
            state.sources = sources;
            drop(state);
            self.changes.tell();
        }
    }

    /// Called now and then while something is being done. Whether it is.
    pub fn measure(&self, now: Instant) -> bool {
        let bytes = self.file.filled_now().bytes;
        let mut state = self.lock();
        if state.job.is_none() {
            return false;
        }
        state.meter.at(now, bytes);
        true
    }

    /// From memory. Only one that was finished this moment is looked at: whoever hears that it is there hears what it is.
    pub fn status(&self, sending: u32) -> FileStatus {
        let filled = self.file.filled_now();
        let mut state = self.lock();
        if filled.downloaded && state.facts.shape.is_none() {
            state.facts = Facts::of(&self.file);
        }
        let doing = state.job.as_ref().map(|job| job.doing);
        let (now, reason) = match (doing, &state.failed) {
            _ if state.gone.is_some() => (FileState::Unknown, state.gone.clone().unwrap_or_default()),
            _ if filled.downloaded => (FileState::Downloaded, String::new()),
            (Some(Doing::Verifying), _) => {
                (FileState::Unknown, "the file was changed: it is being verified again".to_owned())
            }
            (Some(_), _) => (FileState::Downloading, String::new()),
            (None, Some(failed)) => (FileState::Failed, failed.why.clone()),
            _ if filled.checking => {
                (FileState::Unknown, "the file was changed: it has to be verified again".to_owned())
            }
            (None, None) => (FileState::Pending, String::new()),
        };
        FileStatus {
            uuid: self.id.clone(),
            state: now,
            reason,
            lasting: now == FileState::Failed && state.failed.as_ref().is_some_and(|failed| failed.lasting),
            size: filled.total,
            bytes: filled.bytes,
            rate: state.meter.now(),
            sources: state.sources.clone(),
            sending,
            pulling: doing == Some(Doing::Pulling),
            seal: state.facts.seal.clone().filter(|_| filled.sealed),
            format: state.facts.shape.as_ref().map(|shape| shape.format),
            virtual_size: state.facts.shape.as_ref().map(|shape| shape.virtual_size),
            real_size: state.facts.real_size,
        }
    }
}

impl Facts {
    fn of(file: &ImageFile) -> Self {
        Self { seal: file.seal(), shape: file.shape(), real_size: file.real_size() }
    }
}

impl Doing {
    fn noun(self) -> &'static str {
        match self {
            Self::Pulling => "pull",
            Self::Syncing => "sync",
            Self::Uploading => "upload",
            Self::Verifying => "verification",
        }
    }
}
