//! The managers of this machine: child processes, one per disk and program.
//!
//! A child ends when its standard input does, so that none outlives this process, not even after kill -9. Restarting one
//! touches no file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logic::images::{BackingImageManager, Process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use wire::site::Serving;

use super::state::{Shared, fresh_report, now};
use crate::identity::Role;

/// Until it says where it listens.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// After it was asked to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Before it is started again; doubled each time, unless it ran for a while in between.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const RAN_WELL: Duration = Duration::from_secs(30);
/// Of the line in which it says where it listens.
const LINE_BYTES: u64 = 4096;

pub(super) struct Children {
    arguments: Vec<OsString>,
    running: Mutex<HashMap<String, Arc<Notify>>>,
    waits: Mutex<HashMap<String, Duration>>,
    /// Nothing is started any more.
    over: CancellationToken,
}

impl Children {
    pub fn new(arguments: Vec<OsString>) -> Self {
        let (running, waits) = (Mutex::default(), Mutex::default());
        Self { arguments, running, waits, over: CancellationToken::new() }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks one to end.
    pub fn stop(&self, manager: &str) {
        if let Some(stop) = self.running().get(manager) {
            stop.notify_one();
        }
    }

    /// Asks all to end, and waits for it.
    pub async fn stop_all(&self) {
        self.over.cancel();
        let deadline = Instant::now() + STOP_TIMEOUT + Duration::from_secs(2);
        loop {
            let stops: Vec<_> = self.running().values().cloned().collect();
            if stops.is_empty() || Instant::now() > deadline {
                return;
            }
            stops.iter().for_each(|stop| stop.notify_one());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn next_wait(&self, manager: &str, ran: Duration) -> Duration {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = waits.entry(manager.to_owned()).or_insert(FIRST_WAIT);
        if ran >= RAN_WELL {
            *wait = FIRST_WAIT;
        }
        let now = *wait;
        *wait = (*wait * 2).min(LONGEST_WAIT);
        now
    }
}

/// Starts the process of a manager, unless it runs.
pub(super) fn start(shared: &Arc<Shared>, name: &str) {
    let Some(manager) = shared.view().site.managers.get(name).cloned() else { return };
    let stop = Arc::new(Notify::new());
    {
        let mut running = shared.children.running();
        if running.contains_key(name) || shared.children.over.is_cancelled() {
            return;
        }
        running.insert(name.to_owned(), Arc::clone(&stop));
    }
    shared.metrics.starts.add();
    {
        let mut view = shared.view();
        let mut report = fresh_report(Process::Runs);
        // How long it was silent goes on counting: a manager that never comes up is unknown after a while.
        if let Some(before) = view.site.reports.get(name) {
            report.heard = before.heard;
        }
        view.site.reports.insert(name.to_owned(), report);
        view.retries.forget(name);
        view.said.retain(|(manager, _), _| manager != name);
    }
    let (shared, name) = (Arc::clone(shared), name.to_owned());
    tokio::spawn(async move {
        let began = Instant::now();
        let why = match run(&shared, &name, &manager, &stop).await {
            Ok(why) => why,
            Err(error) => error,
        };
        shared.children.running().remove(&name);
        let wait = shared.children.next_wait(&name, began.elapsed());
        info!(manager = %name, why, "a manager ended");
        let ended = |wait| Process::Ended { why: why.clone(), wait };
        shared.report(&name, |report| {
            // Where its disk was taken to another machine, somebody else reports by now.
            if matches!(report.process, Process::Runs) {
                report.files = None;
                report.told.clear();
                report.process = ended(true);
            }
        });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shared.children.over.cancelled() => return,
        }
        shared.report(&name, |report| {
            if matches!(report.process, Process::Ended { .. }) {
                report.process = ended(false);
            }
        });
    });
}

/// Runs it to its end, and says how that was.
async fn run(
    shared: &Arc<Shared>,
    name: &str,
    manager: &BackingImageManager,
    stop: &Notify,
) -> Result<String, String> {
    let mut command = command(shared, manager)?;
    let mut child = command.spawn().map_err(|error| format!("it can't be started: {error}"))?;
    // Held until the end: the child ends when it is closed.
    let input = child.stdin.take();
    let output = child.stdout.take().ok_or("it has no output")?;
    let mut output = BufReader::new(output.take(LINE_BYTES));
    let mut line = String::new();
    let said = tokio::select! {
        said = tokio::time::timeout(START_TIMEOUT, output.read_line(&mut line)) => said,
        () = stop.notified() => return Ok(end(&mut child, input).await),
    };
    match said {
        Ok(Ok(length)) if length > 0 => {}
        Ok(_) => {
            let ended = tokio::time::timeout(STOP_TIMEOUT, child.wait()).await;
            return Err(match ended {
                Ok(Ok(status)) => format!("it ended before it served: {}", ending(status)),
                _ => "it closed its output before it served".to_owned(),
            });
        }
        Err(_) => {
            let _ = child.kill().await;
            return Err(format!("it did not serve within {} s", START_TIMEOUT.as_secs()));
        }
    }
    let serving: Serving = match serde_json::from_str(&line) {
        Ok(serving) => serving,
        Err(error) => {
            let _ = child.kill().await;
            return Err(format!("what it said when it began is not understood: {error}"));
        }
    };
    if serving.disk != manager.spec.disk {
        let _ = child.kill().await;
        return Err(format!("disk {} is at {} now", serving.disk, manager.spec.path));
    }
    shared.report(name, |report| {
        report.address = Some(serving.address.clone());
        report.api_version = serving.api_version;
        report.api_min_version = serving.api_min_version;
        report.heard = now();
    });
    // Whatever it says later must not fill its pipe.
    let mut rest = output.into_inner().into_inner();
    tokio::spawn(async move { tokio::io::copy(&mut rest, &mut tokio::io::sink()).await });
    tokio::select! {
        ended = child.wait() => match ended {
            Ok(status) => Err(format!("its process ended: {}", ending(status))),
            Err(error) => Err(format!("its process can't be waited for: {error}")),
        },
        () = stop.notified() => Ok(end(&mut child, input).await),
    }
}

async fn end(child: &mut Child, input: Option<tokio::process::ChildStdin>) -> String {
    drop(input);
    if let Some(pid) = child.id().and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    if tokio::time::timeout(STOP_TIMEOUT, child.wait()).await.is_err() {
        warn!("a manager did not end when it was asked to, and was killed");
        let _ = child.kill().await;
    }
    "it was stopped".to_owned()
}

fn ending(status: std::process::ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "nobody knows how".to_owned(),
    }
}

fn command(shared: &Shared, manager: &BackingImageManager) -> Result<Command, String> {
    let spec = &manager.spec;
    let (identity, address) = {
        let view = shared.view();
        (shared.directory.join("managers").join(spec.disk.as_str()), view.settings.manager_address())
    };
    let address = address.ok_or("it is not known under which address other machines reach this one")?;
    renew(shared, manager).map_err(|error| format!("it can't be given a certificate: {error}"))?;
    let mut command = Command::new(&spec.program.path);
    command
        .args(&shared.children.arguments)
        .arg("image-manager")
        .arg("--disk")
        .arg(&spec.path)
        .arg("--identity")
        .arg(identity)
        .arg("--listen")
        .arg(std::net::SocketAddr::new(address, 0).to_string())
        .arg("--node")
        .arg(spec.node.as_str())
        .arg("--end-with-stdin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    // Not interrupted by what interrupts this process from a terminal: it is told to end.
    command.process_group(0);
    command.env_remove("NOTIFY_SOCKET");
    Ok(command)
}

/// Gives a manager of this machine a certificate, where it has none or a third of its life is left.
pub(super) fn renew(shared: &Shared, manager: &BackingImageManager) -> crate::identity::Result<()> {
    let directory = shared.directory.join("managers").join(manager.spec.disk.as_str());
    let there = crate::identity::Identity::load(&directory).ok().flatten();
    let good = there.is_some_and(|there| {
        there.renew_at() > std::time::SystemTime::now()
            && there.fingerprint() == shared.authority.fingerprint()
    });
    if good {
        return Ok(());
    }
    let role = Role::Manager(manager.spec.disk.clone());
    shared.authority.identity(&role, &[manager.spec.node.to_string()])?.save(&directory)
}
