//! Carries out migrations: every object of a resource is read and written back unchanged, so that the API server stores
//! it in the current version.
//!
//! Architecture invariant: a migration is called `Succeeded` only after every object was written since its stamp, while
//! the storage version is still the one that it is stamped with; and that is the last thing written about it.

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
use logic::storage::{Phase, Resource};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::objects::Objects;
use self::pass::{Course, Pass, PassEnd};
use self::paths::Paths;
use self::record::{Lost, Record};
use self::reply::Requests;
use self::report::Report;
use self::tally::Counts;
use self::throttle::Throttle;
use self::worth::{Begin, Start, Verdict};
use crate::api::StorageVersionMigration;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Cheap to clone. All migrations share one pace.
#[derive(Clone)]
pub struct Migrator {
    requests: Requests,
    tries: u32,
    patience: Duration,
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
}

/// A storage version that changes this often during one migration will not stay.
const MOST_PASSES: u32 = 5;
/// API servers show a custom resource's new storage version a moment before they use it.
const IN_USE_AFTER: Duration = Duration::from_secs(1);

/// How one migration goes on after a pass.
enum Next {
    Over(Ended),
    /// What it is worth has changed: everything once more.
    Anew(Box<Record>),
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
        Self { requests, tries: settings.tries.max(1), patience: settings.patience.get() }
    }

    /// Carries out one migration until it is over, or must end: then not one more write begins. Goes on from where an
    /// earlier run left it.
    pub async fn run(&self, migration: StorageVersionMigration, stop: CancellationToken) -> Ended {
        let resource = Arc::new(migration.spec.resource.resource());
        let name = migration.metadata.name.clone().unwrap_or_default();
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Ended::Stopped,
            ended = self.carry_out(migration, &resource, &stop) => ended,
        };
        self.requests.metrics.remaining(&resource, None);
        info!(migration = name, %resource, ?ended, "migration ended");
        ended
    }

    async fn carry_out(
        &self,
        migration: StorageVersionMigration,
        resource: &Arc<Resource>,
        stop: &CancellationToken,
    ) -> Ended {
        match migration.phase() {
            Phase::Succeeded => return Ended::Succeeded,
            Phase::Failed => return Ended::Failed,
            Phase::Pending | Phase::Running => {}
        }
        let mut start = Some(Start::of(&migration));
        let mut record = Record::new(self.requests.client.clone(), migration);
        for _ in 0..MOST_PASSES {
            match self.once(record, resource, start.take(), stop).await {
                Ok(Next::Over(ended)) | Err(Lost(ended)) => return ended,
                Ok(Next::Anew(same)) => record = *same,
            }
        }
        let why = "its storage version keeps changing".to_owned();
        let failure = Failure { reason: "StorageVersionUnstable", why };
        self.fail(record, &Counts::default(), Some(failure)).await.unwrap_or_else(|Lost(ended)| ended)
    }

    /// One pass through all objects from `start`, or from the beginning with a new stamp; and the verdict on it.
    async fn once(
        &self,
        mut record: Record,
        resource: &Arc<Resource>,
        start: Option<Start>,
        stop: &CancellationToken,
    ) -> Result<Next, Lost> {
        let begun = Instant::now();
        // Whatever happens to the definition after this is noticed at the end.
        let begin = self.begin(&mut record, resource, start).await?;
        let Begin { stamp, version, definition, start } = match begin {
            Ok(begin) => begin,
            Err(failure) => {
                return Ok(Next::Over(self.fail(record, &Counts::default(), Some(failure)).await?));
            }
        };
        let not_before = match &definition {
            Some(_) if start.token.is_none() => begun + IN_USE_AFTER,
            _ => begun,
        };
        let paths = Arc::new(Paths::new(&resource.group, &version, &resource.resource));
        let course = Course {
            objects: Objects { requests: self.requests.clone(), paths },
            resource: resource.clone(),
            tries: self.tries,
            patience: self.patience,
            not_before,
            stop: stop.clone(),
        };
        let (end, mut record, mut report) =
            Pass::new(course, record, start.token, start.counts).run().await?;
        let counts = match end {
            PassEnd::Through(counts) => counts,
            PassEnd::Anew => return Ok(Next::Anew(Box::new(record))),
            PassEnd::Failed { counts, reason, why } => {
                let failure = Some(Failure { reason, why });
                return Ok(Next::Over(self.fail(record, &counts, failure).await?));
            }
        };
        match self.judge(resource, &stamp, definition.as_ref(), &counts).await {
            Ok(Verdict::Changed) => Ok(Next::Anew(Box::new(record))),
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
