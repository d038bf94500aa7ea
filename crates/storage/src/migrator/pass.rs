//! One way through a resource's objects, from a token to the end: pages are read while objects are written, what fails is
//! tried again later, and how far it came is recorded from time to time.
//!
//! One owner, one loop: requests are futures that end with what came of them, and only the loop decides what follows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use logic::storage::Resource;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Ended;
use super::objects::{Name, NotListed, Objects, Tried};
use super::page::{Page, PageSize};
use super::record::{Lost, Record, Rhythm};
use super::report::{Report, Stuck};
use super::tally::{Counts, Tally};
use super::trouble::Trouble;

mod outcome;
mod task;

use task::{Later, Task};

/// What a pass needs to know.
pub(super) struct Course {
    pub objects: Objects,
    pub resource: Arc<Resource>,
    pub tries: u32,
    pub patience: Duration,
    pub rhythm: Rhythm,
    /// Whether it ends while others could go on and this one can't.
    pub gives_way: bool,
    pub stop: CancellationToken,
}

pub(super) enum PassEnd {
    /// Every object was written, or is counted among those that could not be.
    Through(Counts),
    /// The list can't be gone on with: it has to be begun anew.
    Anew,
    /// It can't go on now; what was recorded is gone on from.
    Aside,
    Failed {
        counts: Counts,
        reason: &'static str,
        why: String,
    },
}

/// Objects that were refused and are tried again.
#[derive(Default)]
struct Refusals {
    objects: usize,
    /// One of them, and why; replaced when it is refused for another reason, so that the same is said once.
    last: Option<(Name, String)>,
}

/// The same, before everything is counted.
enum End {
    Through,
    Anew,
    Aside,
    Failed { reason: &'static str, why: String },
}

pub(super) struct Pass {
    course: Course,
    report: Report,
    tally: Tally,
    /// Not there while it is being written.
    record: Option<Record>,
    token: Option<String>,
    size: PageSize,
    last_page: usize,
    read_all: bool,
    remaining: Option<u64>,
    queue: VecDeque<Task>,
    later: BinaryHeap<Reverse<Later>>,
    writing: FuturesUnordered<BoxFuture<'static, (Task, Tried)>>,
    listing: Option<BoxFuture<'static, Result<Page, NotListed>>>,
    recording: Option<BoxFuture<'static, (Record, Result<(), Lost>)>>,
    record_due: Instant,
    /// What was recorded last, to say nothing twice.
    told: (u64, Option<Stuck>),
    no_list: Option<Trouble>,
    no_write: Option<Trouble>,
    refusals: Refusals,
    /// When an object was last written.
    written: Instant,
    /// Of the objects that are being written.
    bytes: usize,
}

const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Objects that wait for another try, before no more are read.
const MOST_LATER: usize = 1000;
/// Of objects that are being written: on its way each is in memory more than once.
const MOST_BYTES: usize = 640 * 1024;
/// So often a single object may end without an answer, while others are answered.
const MOST_SILENCES: u32 = 3;

impl Pass {
    pub fn new(course: Course, record: Record, token: Option<String>, counts: Counts) -> Self {
        let mut report = Report::new(record.status());
        let tally = Tally::resume(token.clone(), counts);
        report.begin(tally.migrated + tally.failed);
        Self {
            record_due: Instant::now() + course.rhythm.first,
            course,
            report,
            tally,
            record: Some(record),
            token,
            size: PageSize::default(),
            last_page: 0,
            read_all: false,
            remaining: None,
            queue: VecDeque::new(),
            later: BinaryHeap::new(),
            writing: FuturesUnordered::new(),
            listing: None,
            recording: None,
            told: (0, None),
            no_list: None,
            no_write: None,
            refusals: Refusals::default(),
            written: Instant::now(),
            bytes: 0,
        }
    }

    /// Goes on until there is nothing left to do.
    pub async fn run(mut self) -> Result<(PassEnd, Record, Report), Lost> {
        let end = self.go_on().await?;
        // No more writes, but a record on its way arrives before the last word.
        self.writing.clear();
        if let Some(recording) = self.recording.take() {
            let (record, written) = recording.await;
            written?;
            self.record = Some(record);
        }
        let counts = self.tally.total();
        let end = match end {
            End::Through => PassEnd::Through(counts),
            End::Anew => PassEnd::Anew,
            End::Aside => PassEnd::Aside,
            End::Failed { reason, why } => PassEnd::Failed { counts, reason, why },
        };
        let record = self.record.ok_or(Lost(Ended::Stopped))?;
        Ok((end, record, self.report))
    }

    async fn go_on(&mut self) -> Result<End, Lost> {
        loop {
            self.dispatch();
            self.begin_list();
            self.begin_record();
            if self.is_through() {
                return Ok(End::Through);
            }
            let wake = self.wake();
            let end = tokio::select! {
                biased;
                Some((task, tried)) = self.writing.next(), if !self.writing.is_empty() => self.tried(task, tried),
                listed = under_way(&mut self.listing) => {
                    self.listing = None;
                    self.listed(listed)
                }
                (record, written) = under_way(&mut self.recording) => {
                    self.recording = None;
                    written?;
                    self.record = Some(record);
                    None
                }
                () = tokio::time::sleep_until(wake) => None,
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    fn is_through(&self) -> bool {
        self.read_all
            && self.listing.is_none()
            && self.queue.is_empty()
            && self.writing.is_empty()
            && self.later.is_empty()
    }

    /// When there may be something to do, if nothing happens before.
    fn wake(&self) -> Instant {
        let now = Instant::now();
        let due = self.later.peek().map(|Reverse(later)| later.due);
        let troubles = [&self.no_list, &self.no_write].into_iter().flatten().map(|trouble| trouble.until);
        let times = troubles.chain(due).chain([self.record_due]).filter(|time| *time > now);
        times.min().unwrap_or(now + self.course.rhythm.every)
    }

    fn dispatch(&mut self) {
        let now = Instant::now();
        while let Some(Reverse(later)) = self.later.peek()
            && later.due <= now
        {
            let Some(Reverse(later)) = self.later.pop() else { return };
            self.queue.push_front(later.task);
        }
        let at_once = match &self.no_write {
            Some(trouble) if now < trouble.until => 0,
            // One asks whether it is over.
            Some(_) => 1,
            None => self.course.objects.requests.throttle.ceiling(),
        };
        while self.writing.len() < at_once && (self.bytes < MOST_BYTES || self.writing.is_empty()) {
            let Some(task) = self.queue.pop_front() else { return };
            self.bytes += task.object.bytes();
            let objects = self.course.objects.clone();
            let stop = self.course.stop.clone();
            self.writing.push(
                async move {
                    let tried = objects.write(&task.object, &stop).await;
                    (task, tried)
                }
                .boxed(),
            );
        }
    }

    /// The next page is read while the second half of this one is written: never are more than two in memory.
    fn begin_list(&mut self) {
        let wanted = !self.read_all
            && self.listing.is_none()
            && self.queue.len() * 2 <= self.last_page
            && self.later.len() < MOST_LATER;
        let now = Instant::now();
        let held_up = self.no_list.as_ref().is_some_and(|trouble| now < trouble.until);
        // While nothing can be written, there is no need of more.
        let of_use = self.no_write.is_none() || self.queue.is_empty();
        if wanted && of_use && !held_up {
            let (objects, token, size) = (self.course.objects.clone(), self.token.clone(), self.size.clone());
            self.listing = Some(async move { objects.list(token.as_deref(), &size).await }.boxed());
        }
    }

    fn begin_record(&mut self) {
        if Instant::now() < self.record_due || self.record.is_none() || self.is_through() {
            return;
        }
        self.record_due = Instant::now() + self.course.rhythm.every;
        let now = (self.tally.migrated + self.tally.failed, self.stuck());
        if now == self.told && self.record.as_ref().is_some_and(|record| record.status().is_some()) {
            return;
        }
        let Some(mut record) = self.record.take() else { return };
        let waiting = (self.queue.len() + self.writing.len() + self.later.len()) as u64;
        let remaining = if self.read_all { Some(waiting) } else { self.remaining.map(|it| it + waiting) };
        let status = self.report.running(record.status(), &self.tally, remaining, now.1.as_ref());
        self.course.objects.requests.metrics.progress(&self.course.resource, status.progress.as_ref());
        self.told = now;
        self.recording = Some(
            async move {
                let written = record.write(&status).await;
                (record, written)
            }
            .boxed(),
        );
    }

    fn stuck(&self) -> Option<Stuck> {
        if let Some(trouble) = self.no_write.as_ref().or(self.no_list.as_ref()) {
            return Some(Stuck { reason: trouble.kind.reason(), why: trouble.to_string() });
        }
        let (name, why) = self.refusals.last.as_ref()?;
        let why = match self.refusals.objects {
            0 => return None,
            1 => format!("an object is refused and tried again: {name}: {why}"),
            objects => format!("{objects} objects are refused and tried again, such as {name}: {why}"),
        };
        Some(Stuck { reason: "ObjectsRefused", why })
    }
}

/// Waits for what is under way; forever, if nothing is.
async fn under_way<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
