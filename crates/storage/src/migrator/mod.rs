//! Carries out migrations: every object of a resource is read and written back unchanged, so that the API server stores
//! it in the current version.
//!
//! Architecture invariant: a migration is called `Succeeded` only after every object was written since its stamp, while
//! the storage version is still the one that it is stamped with; and that is the last thing written about it.

mod behind;
mod objects;
mod page;
mod pass;
mod paths;
mod record;
mod reply;
mod report;
mod tally;
mod throttle;
mod trouble;
mod worth;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use logic::storage::{Phase, Resource, list_in};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::behind::Behind;
use self::objects::Objects;
use self::pass::{Course, Pass, PassEnd};
use self::paths::Paths;
use self::record::{Lost, Record, Rhythm};
use self::reply::Requests;
use self::report::Report;
use self::tally::Counts;
use self::throttle::Throttle;
use self::worth::{Begin, Start, Verdict};
use crate::api::StorageVersionMigration;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Cheap to clone. All migrations share one pace, and a slower one where a server behind the API server asks for that.
#[derive(Clone)]
pub struct Migrator {
    requests: Requests,
    behind: Behind,
    tries: u32,
    patience: Duration,
    rhythm: Rhythm,
    /// How old what a StorageState says may be, in seconds.
    believed_for: i64,
}

/// How a migration came to its end here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Succeeded,
    Failed,
    /// It was told to; another time it goes on from where it was.
    Stopped,
    /// Its object was deleted.
    Gone,
    /// It can't go on now, and others may have its place; at its next turn it goes on from where it was.
    Aside,
}

/// How a migration comes to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Since when it is known.
    pub seen: Instant,
    /// Whether others wait for its place.
    pub gives_way: bool,
}

/// A storage version that changes this often during one migration will not stay; nor will a list that expires this often.
const MOST_PASSES: u32 = 5;

/// What a pass goes by.
struct How {
    /// Since when its storage version is shown; none if it is looked up by the pass.
    shown: Option<Instant>,
    gives_way: bool,
    stop: CancellationToken,
}

/// How one migration goes on after a pass.
enum Next {
    Over(Ended),
    /// Everything once more.
    Anew(Box<Record>, Because),
}

/// Why everything has to be done once more.
#[derive(Clone, Copy)]
enum Because {
    /// What it is worth has changed.
    VersionChanged,
    ListExpired,
}

impl Because {
    /// When it was so every time.
    fn failure(self) -> Failure {
        let (reason, why) = match self {
            Self::VersionChanged => ("StorageVersionUnstable", "its storage version keeps changing"),
            Self::ListExpired => ("ListExpired", "its list keeps expiring before it is read to its end"),
        };
        Failure { reason, why: why.to_owned() }
    }
}

/// What ends a migration as `Failed`, other than objects.
struct Failure {
    reason: &'static str,
    why: String,
}

impl Migrator {
    pub fn new(client: Client, settings: &Settings, metrics: Arc<Metrics>) -> Self {
        let throttle = Throttle::new(settings.writes_at_once, metrics.clone());
        let requests = Requests { client, throttle, metrics };
        // The trigger looks twice in a period.
        let believed_for = i64::try_from(settings.period.get().as_secs()).unwrap_or(i64::MAX);
        let (tries, patience) = (settings.tries.max(1), settings.patience.get());
        Self { requests, behind: Behind::default(), tries, patience, rhythm: Rhythm::default(), believed_for }
    }

    /// How far a migration came is written down this often: the less is done again after an interruption.
    #[must_use]
    pub fn recording_every(mut self, every: Duration) -> Self {
        self.rhythm = Rhythm { first: every, every };
        self
    }

    /// Carries out one migration until it is over, or must end: then not one more write begins. Goes on from where an
    /// earlier run left it.
    pub async fn run(&self, migration: StorageVersionMigration, stop: CancellationToken) -> Ended {
        let turn = Turn { seen: Instant::now(), gives_way: false };
        self.take_turn(migration, turn, stop).await
    }

    /// The same, for one of many.
    pub(crate) async fn take_turn(
        &self,
        migration: StorageVersionMigration,
        turn: Turn,
        stop: CancellationToken,
    ) -> Ended {
        let resource = Arc::new(migration.spec.resource.resource());
        let name = migration.metadata.name.clone().unwrap_or_default();
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Ended::Stopped,
            ended = self.carry_out(migration, turn, &resource, &stop) => ended,
        };
        self.requests.metrics.progress(&resource, None);
        info!(migration = name, %resource, ?ended, "migration ended");
        ended
    }

    async fn carry_out(
        &self,
        migration: StorageVersionMigration,
        turn: Turn,
        resource: &Arc<Resource>,
        stop: &CancellationToken,
    ) -> Ended {
        match migration.phase() {
            Phase::Succeeded => return Ended::Succeeded,
            Phase::Failed => return Ended::Failed,
            Phase::Pending | Phase::Running => {}
        }
        // Whoever stamped it had seen the storage version before; otherwise that is seen when it is stamped.
        let mut shown = migration.stamp().map(|_| turn.seen);
        let mut start = Some(Start::of(&migration));
        let mut record = Record::new(self.requests.client.clone(), migration);
        let mut because = Because::VersionChanged;
        for _ in 0..MOST_PASSES {
            let how = How { shown: shown.take(), gives_way: turn.gives_way, stop: stop.clone() };
            match self.once(record, resource, start.take(), how).await {
                Ok(Next::Over(ended)) | Err(Lost(ended)) => return ended,
                Ok(Next::Anew(same, why)) => (record, because) = (*same, why),
            }
        }
        let failed = self.fail(record, &Counts::default(), Some(because.failure())).await;
        failed.unwrap_or_else(|Lost(ended)| ended)
    }

    /// One pass through all objects from `start`, or from the beginning with a new stamp; and the verdict on it.
    async fn once(
        &self,
        mut record: Record,
        resource: &Arc<Resource>,
        start: Option<Start>,
        how: How,
    ) -> Result<Next, Lost> {
        // Whatever happens to the definition after this is noticed at the end.
        let begin = self.begin(&mut record, resource, start).await?;
        let Begin { stamp, version, definition, start } = match begin {
            Ok(begin) => begin,
            Err(failure) => {
                return Ok(Next::Over(self.fail(record, &Counts::default(), Some(failure)).await?));
            }
        };
        let shown_for = how.shown.map_or(Duration::ZERO, |shown| shown.elapsed());
        let pause = list_in(definition.is_some(), start.token.is_some(), shown_for);
        tokio::time::sleep(pause).await;
        let paths = Arc::new(Paths::new(&resource.group, &version, &resource.resource));
        let requests = self.requests_for(resource, &version, definition.as_ref()).await;
        let course = Course {
            objects: Objects { requests, paths },
            resource: resource.clone(),
            tries: self.tries,
            patience: self.patience,
            rhythm: self.rhythm,
            gives_way: how.gives_way,
            stop: how.stop,
        };
        let (end, mut record, mut report) =
            Pass::new(course, record, start.token, start.counts).run().await?;
        let counts = match end {
            PassEnd::Through(counts) => counts,
            PassEnd::Anew => return Ok(Next::Anew(Box::new(record), Because::ListExpired)),
            PassEnd::Aside => return Ok(Next::Over(Ended::Aside)),
            PassEnd::Failed { counts, reason, why } => {
                let failure = Some(Failure { reason, why });
                return Ok(Next::Over(self.fail(record, &counts, failure).await?));
            }
        };
        match self.judge(resource, &stamp, definition.as_ref(), &counts).await {
            Ok(Verdict::Changed) => Ok(Next::Anew(Box::new(record), Because::VersionChanged)),
            Ok(Verdict::Stands) if counts.failed == 0 => {
                let status = report.succeeded(record.status(), &counts);
                record.write(&status).await?;
                Ok(Next::Over(Ended::Succeeded))
            }
            Ok(Verdict::Stands) => Ok(Next::Over(self.fail(record, &counts, None).await?)),
            Err(failure) => Ok(Next::Over(self.fail(record, &counts, Some(failure)).await?)),
        }
    }

    async fn fail(
        &self,
        mut record: Record,
        counts: &Counts,
        failure: Option<Failure>,
    ) -> Result<Ended, Lost> {
        let (reason, why) = match &failure {
            Some(failure) => (failure.reason, Some(failure.why.as_str())),
            None => ("ObjectsFailed", None),
        };
        let status = Report::new(record.status()).failed(record.status(), counts, reason, why);
        record.write(&status).await?;
        Ok(Ended::Failed)
    }
}
