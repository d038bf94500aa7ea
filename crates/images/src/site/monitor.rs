//! Hears what managers have to say: a task for each that can be reached. It lists when `Watch` says that something changed,
//! and now and then anyway, which is how a silent manager is noticed. Ten errors in a row end it; the loop begins another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logic::images::{DiskId, FileStatus, ImageName, Process};
use tokio::sync::Notify;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tracing::{debug, info};
use wire::images::image_manager_client::ImageManagerClient;
use wire::images::{ListRequest, ListResponse, VersionGetRequest, WatchRequest};

use super::state::{Monitor, Shared, now};

/// Errors in a row that end a monitor.
const MOST_ERRORS: u32 = 10;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Lists are this far apart however often something changes, and no farther than that when nothing does.
const AT_MOST_EVERY: Duration = Duration::from_millis(250);
const AT_LEAST_EVERY: Duration = Duration::from_secs(2);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// No disk has more.
const MOST_IMAGES: usize = 100_000;

/// Sees that every manager that has an address is heard, at the address that it has now.
pub(super) fn keep(shared: &Arc<Shared>) {
    let mut view = shared.view();
    let view = &mut *view;
    let mut wanted = Vec::new();
    for (name, manager) in &view.site.managers {
        let Some(report) = view.site.reports.get(name) else { continue };
        let address = match report.process {
            Process::Runs | Process::Elsewhere => report.address.clone(),
            Process::Ended { .. } => None,
        };
        if let Some(address) = address.filter(|_| !manager.is_deleted()) {
            wanted.push((name.clone(), manager.spec.disk.clone(), address));
        }
    }
    view.monitors.retain(|name, monitor| {
        let still = wanted.iter().any(|(wanted, _, address)| wanted == name && *address == monitor.address);
        if !still {
            monitor.task.abort();
        }
        still && !monitor.task.is_finished()
    });
    for (name, disk, address) in wanted {
        view.monitors.entry(name.clone()).or_insert_with(|| {
            let (shared, poke) = (Arc::clone(shared), Arc::new(Notify::new()));
            let watching = Watching { shared, name, disk, address: address.clone(), poke: Arc::clone(&poke) };
            Monitor { address, task: tokio::spawn(watching.run()), poke }
        });
    }
}

struct Watching {
    shared: Arc<Shared>,
    name: String,
    disk: DiskId,
    address: String,
    poke: Arc<Notify>,
}

impl Watching {
    async fn run(self) {
        let mut errors = 0;
        let mut wait = FIRST_WAIT;
        while errors < MOST_ERRORS {
            match self.hear(&mut errors).await {
                Ok(()) => wait = FIRST_WAIT,
                Err(error) => {
                    errors += 1;
                    debug!(manager = %self.name, cause = %error, errors, "a manager can't be heard");
                    if error.code() == Code::FailedPrecondition {
                        let problem = error.message().to_owned();
                        self.shared.report(&self.name, |report| {
                            report.heard = now();
                            report.disk_problem = Some(problem);
                        });
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        info!(manager = %self.name, "the monitor of a manager ended after {MOST_ERRORS} errors in a row");
        self.shared.wake.notify_one();
    }

    /// Until something fails, or the manager closes the connection.
    async fn hear(&self, errors: &mut u32) -> Result<(), Status> {
        let calls = self.shared.dialler.calls(&self.disk, &self.address);
        let mut calls = calls.map_err(|error| Status::unavailable(error.to_string()))?;
        let version = timely(calls.version_get(VersionGetRequest {})).await?.into_inner();
        if version.disk != self.disk.as_str() {
            return Err(Status::failed_precondition(format!("disk {} is in its place now", version.disk)));
        }
        self.shared.report(&self.name, |report| {
            report.heard = now();
            report.api_version = version.api_version;
            report.api_min_version = version.api_min_version;
        });
        // Watched before it is listed: what changes in between is told.
        let mut changes = timely(calls.watch(WatchRequest {})).await?.into_inner();
        self.list(&mut calls).await?;
        *errors = 0;
        loop {
            tokio::time::sleep(AT_MOST_EVERY).await;
            tokio::select! {
                change = changes.message() => match change? {
                    Some(_) => {}
                    None => return Err(Status::unavailable("it closed the stream of changes")),
                },
                () = self.poke.notified() => {}
                () = tokio::time::sleep(AT_LEAST_EVERY) => {}
            }
            self.list(&mut calls).await?;
            *errors = 0;
        }
    }

    async fn list(&self, calls: &mut ImageManagerClient<Channel>) -> Result<(), Status> {
        let list = timely(calls.list(ListRequest {})).await?.into_inner();
        let space = (list.disk_size > 0).then_some((list.disk_free, list.disk_size));
        self.shared.listed(&self.name, files(&list)?, space);
        Ok(())
    }
}

fn files(list: &ListResponse) -> Result<BTreeMap<ImageName, FileStatus>, Status> {
    if list.images.len() > MOST_IMAGES {
        return Err(Status::out_of_range("it lists more images than a disk can have"));
    }
    list.images
        .iter()
        .map(|image| wire::file_status(image).map_err(|error| Status::internal(error.to_string())))
        .collect()
}

async fn timely<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| {
        Err(Status::deadline_exceeded(format!("no answer within {} s", CALL_TIMEOUT.as_secs())))
    })
}
