//! A migration's status, made of what is known: for people (`kubectl get`), and for whoever goes on after an
//! interruption.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::tally::{Counts, Tally};
use crate::api::{Condition, MIGRATING, Progress, StorageVersionMigrationStatus};

/// What is shown while it runs.
pub(super) struct Report {
    started: Timestamp,
    /// Objects done by then, lately.
    samples: VecDeque<(Instant, u64)>,
}

/// What keeps a migration from going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stuck {
    /// For programs.
    pub reason: &'static str,
    pub why: String,
}

/// The rate is that of so many reports.
const SAMPLES: usize = 6;

impl Report {
    pub fn new(before: Option<&StorageVersionMigrationStatus>) -> Self {
        let started = before.and_then(|status| status.progress.as_ref()?.started).unwrap_or_else(now);
        Self { started, samples: VecDeque::from([(Instant::now(), 0)]) }
    }

    pub fn running(
        &mut self,
        before: Option<&StorageVersionMigrationStatus>,
        tally: &Tally,
        remaining: Option<u64>,
        stuck: Option<&Stuck>,
    ) -> StorageVersionMigrationStatus {
        let per_second = self.rate(tally.migrated + tally.failed);
        let mut message = counted(tally.migrated, tally.failed);
        if let Some(remaining) = remaining {
            message = format!("{message}, {remaining} to go");
        }
        if let Some(Stuck { why, .. }) = stuck {
            message = format!("{message}; waiting: {why}");
        }
        let reason = stuck.map_or(MIGRATING, |stuck| stuck.reason);
        let settled = tally.settled();
        let progress = Progress {
            migrated: settled.migrated,
            failed: settled.failed,
            remaining,
            per_second,
            seconds_left: remaining.filter(|_| per_second > 0).map(|count| count / per_second),
            started: Some(self.started),
            finished: None,
        };
        StorageVersionMigrationStatus {
            conditions: conditions(before, "Running", reason, message),
            continue_token: tally.token().cloned(),
            progress: Some(progress),
            failures: settled.failures.clone(),
        }
    }

    pub fn succeeded(
        &mut self,
        before: Option<&StorageVersionMigrationStatus>,
        counts: &Counts,
    ) -> StorageVersionMigrationStatus {
        let message = counted(counts.migrated, 0);
        self.over(conditions(before, "Succeeded", "Migrated", message), counts)
    }

    pub fn failed(
        &mut self,
        before: Option<&StorageVersionMigrationStatus>,
        counts: &Counts,
        reason: &str,
        why: Option<&str>,
    ) -> StorageVersionMigrationStatus {
        let mut message = counted(counts.migrated, counts.failed);
        if let Some(why) = why {
            message = format!("{message}; {why}");
        } else {
            let names = counts.failures.iter().map(|line| line.split(": ").next().unwrap_or(line));
            message = format!("{message}: {}", names.collect::<Vec<_>>().join(", "));
            if counts.failed > counts.failures.len() as u64 {
                message.push_str(", …");
            }
        }
        self.over(conditions(before, "Failed", reason, message), counts)
    }

    fn over(&mut self, conditions: Vec<Condition>, counts: &Counts) -> StorageVersionMigrationStatus {
        let finished = now();
        let progress = Progress {
            migrated: counts.migrated,
            failed: counts.failed,
            remaining: None,
            per_second: over_all(counts.migrated, self.started, finished),
            seconds_left: None,
            started: Some(self.started),
            finished: Some(finished),
        };
        let failures = counts.failures.clone();
        StorageVersionMigrationStatus { conditions, continue_token: None, progress: Some(progress), failures }
    }

    /// Objects a second, lately.
    fn rate(&mut self, done: u64) -> u64 {
        self.samples.push_back((Instant::now(), done));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return 0 };
        let took = (last.0 - first.0).max(Duration::from_millis(1)).as_millis();
        u64::try_from(u128::from(last.1.saturating_sub(first.1)) * 1000 / took).unwrap_or(u64::MAX)
    }

    /// From here on the rate is measured: what an interrupted run did is not this one's speed.
    pub fn begin(&mut self, done: u64) {
        self.samples = VecDeque::from([(Instant::now(), done)]);
    }
}

fn counted(migrated: u64, failed: u64) -> String {
    match failed {
        0 => format!("{migrated} migrated"),
        _ => format!("{migrated} migrated, {failed} could not be written"),
    }
}

/// To the second, as Kubernetes writes times.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Exactly one of the three is true; conditions of others are left as they are.
fn conditions(
    before: Option<&StorageVersionMigrationStatus>,
    kind: &str,
    reason: &str,
    message: String,
) -> Vec<Condition> {
    let before = before.map_or(&[][..], |status| &status.conditions);
    let mut all: Vec<Condition> = before.to_vec();
    for condition in &mut all {
        let ours = ["Running", "Succeeded", "Failed"].contains(&condition.kind.as_str());
        if ours && condition.kind != kind && condition.status == "True" {
            condition.status = "False".to_owned();
            condition.last_update_time = Some(now());
        }
    }
    let condition = Condition {
        kind: kind.to_owned(),
        status: "True".to_owned(),
        last_update_time: Some(now()),
        reason: reason.to_owned(),
        message,
    };
    match all.iter_mut().find(|it| it.kind == kind) {
        Some(same) => *same = condition,
        None => all.push(condition),
    }
    all
}

/// Objects a second, from beginning to end.
fn over_all(migrated: u64, started: Timestamp, finished: Timestamp) -> u64 {
    // Times are kept to the second.
    migrated / u64::try_from(finished.as_second() - started.as_second()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(status: &StorageVersionMigrationStatus) -> Vec<&str> {
        status.conditions.iter().filter(|it| it.status == "True").map(|it| &*it.kind).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn exactly_one_condition_holds() {
        let mut report = Report::new(None);
        let mut tally = Tally::default();
        let page = tally.open(3, Some("next".into()));
        (0..3).for_each(|_| tally.migrated(page));
        tokio::time::advance(Duration::from_secs(1)).await;
        let stuck = Stuck { reason: "ServerAbsent", why: "the server is not there".into() };
        let running = report.running(None, &tally, Some(30), Some(&stuck));
        assert_eq!(holding(&running), ["Running"]);
        assert_eq!(running.conditions[0].message, "3 migrated, 30 to go; waiting: the server is not there");
        assert_eq!(running.conditions[0].reason, "ServerAbsent");
        assert_eq!(running.continue_token.as_deref(), Some("next"));
        let progress = running.progress.as_ref().unwrap();
        assert_eq!((progress.migrated, progress.per_second, progress.seconds_left), (3, 3, Some(10)));

        let counts = Counts { migrated: 2, failed: 1, failures: vec!["n/a: refused: really".into()] };
        let failed = report.failed(Some(&running), &counts, "ObjectsFailed", None);
        assert_eq!(holding(&failed), ["Failed"]);
        assert_eq!(failed.conditions[1].message, "2 migrated, 1 could not be written: n/a");
        let again = report.running(Some(&failed), &tally, None, None);
        assert_eq!(holding(&again), ["Running"]);
        assert_eq!(again.conditions[0].reason, MIGRATING);
        let done = report.succeeded(Some(&again), &Counts { migrated: 3, ..Counts::default() });
        assert_eq!(holding(&done), ["Succeeded"]);
        assert_eq!(done.conditions.len(), 3);
    }
}
