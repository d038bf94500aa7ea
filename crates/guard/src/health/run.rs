//! Runs all checks, several at once, within one time limit. The effects of this module are the checks' own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::attempt::{Attempt, bounded, outcome};
use super::config::{Check, CheckKind, Config};
use super::error::Error;
use super::kubernetes::{self, Asked};
use super::report::{CheckResult, Ending, Report, verdict};
use super::scripts::{self, Note, Script, find_scripts};
use super::{http, probe, unit};
use program::Limits;

/// One try of a built-in check: one that hangs must not use up the time for all further tries.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
/// Between SIGTERM and SIGKILL for an executable whose time is over.
const GRACE: Duration = Duration::from_secs(2);
/// How much longer than its limit a program can take to be gone (grace, and what the kernel needs).
const MARGIN: Duration = Duration::from_secs(8);
/// How long to wait in the end for threads that hang in the kernel (a dead network file system).
const LEAVE: Duration = Duration::from_millis(200);
/// How often the caller's stop flag is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Runs everything that is configured. `limit` is for all of it together (the configuration's, unless the
/// command line says otherwise); `stop`, once set, ends it early. Blocks, with a runtime of its own: not to be
/// called from within another one.
pub fn run_checks(config: &Config, limit: Duration, stop: Option<&Arc<AtomicBool>>) -> Result<Report, Error> {
    config.validate()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| Error::Runtime { source })?;
    let stop = stop.cloned().unwrap_or_default();
    let report = runtime.block_on(run_all(config, limit, stop));
    runtime.shutdown_timeout(LEAVE);
    Ok(report)
}

async fn run_all(config: &Config, limit: Duration, stop: Arc<AtomicBool>) -> Report {
    let started = Instant::now();
    let (planned, mut results, notes) = plan(config);
    let shared = Arc::new(Shared {
        places: Semaphore::new(config.parallel),
        deadline: started + limit,
        stop: stop.clone(),
        systemctl: config.systemctl.clone(),
    });
    let mut tasks = JoinSet::new();
    let names: Vec<_> = planned.iter().map(Planned::empty_result).collect();
    for (index, check) in planned.into_iter().enumerate() {
        let shared = shared.clone();
        tasks.spawn(async move { (index, check.run(&shared).await) });
    }
    let mut done: Vec<Option<CheckResult>> = names.iter().map(|_| None).collect();
    while let Some(ended) = tasks.join_next().await {
        if let Ok((index, result)) = ended {
            done[index] = Some(result);
        }
    }
    // A task that panicked has no result of its own; its check counts as one that could not be run.
    results.extend(done.into_iter().zip(names).map(|(result, empty)| result.unwrap_or(empty)));
    Report {
        verdict: verdict(&results),
        checks: results,
        notes,
        interrupted: stop.load(Ordering::Relaxed),
        took: started.elapsed().into(),
    }
}

/// What is to be run; what can't be, as results already; what was left out.
fn plan(config: &Config) -> (Vec<Planned>, Vec<CheckResult>, Vec<Note>) {
    let mut planned = Vec::new();
    let mut results = Vec::new();
    let mut notes = Vec::new();
    for (dirs, required) in [(&config.required_dirs, true), (&config.wanted_dirs, false)] {
        let found = find_scripts(dirs, &config.disabled, required);
        planned.extend(found.scripts.into_iter().map(|script| Planned::script(script, config)));
        notes.extend(found.notes);
        for Note { path, why } in found.unreadable {
            let name = path.display().to_string();
            let attempt = Attempt::Hopeless(why);
            let planned = Planned::script(Script { name, path, required }, config);
            results.push(planned.result(0, Duration::ZERO, Some(&attempt), Ending::Settled));
        }
    }
    planned.extend(config.checks.iter().cloned().map(Planned::built_in));
    (planned, results, notes)
}

struct Shared {
    places: Semaphore,
    deadline: Instant,
    stop: Arc<AtomicBool>,
    systemctl: PathBuf,
}

enum What {
    Script(PathBuf),
    BuiltIn(CheckKind),
}

struct Planned {
    name: String,
    required: bool,
    timeout: Option<Duration>,
    retry_every: Option<Duration>,
    what: What,
}

impl Planned {
    fn script(script: Script, config: &Config) -> Self {
        Self {
            name: script.name,
            required: script.required,
            timeout: config.script_timeout.map(super::Period::get),
            retry_every: config.script_retry_every.map(super::Period::get),
            what: What::Script(script.path),
        }
    }

    fn built_in(check: Check) -> Self {
        let Check { name, required, timeout, retry_every, kind } = check;
        Self {
            name,
            required,
            timeout: timeout.map(super::Period::get),
            retry_every: Some(retry_every.get()),
            what: What::BuiltIn(kind),
        }
    }

    /// Tries until it passes, or can't, or a limit ends it. A place among those under way is held for a try,
    /// not for the pauses between tries: checks that wait for a slow workload do not hold up the others.
    async fn run(&self, shared: &Shared) -> CheckResult {
        let mut attempts = 0;
        let mut last = None;
        let mut started = None;
        let ending = loop {
            let place = tokio::select! {
                place = shared.places.acquire() => place,
                ending = over(shared, None) => break ending,
            };
            let begun = *started.get_or_insert_with(Instant::now);
            let own = self.timeout.map(|timeout| begun + timeout);
            let until = own.map_or(shared.deadline, |own| own.min(shared.deadline));
            if let Some(ending) = ended(shared, own) {
                break ending;
            }
            attempts += 1;
            let attempt = self.attempt(shared, until).await;
            drop(place);
            let settled = attempt.is_final() || self.retry_every.is_none();
            let cut = matches!(attempt, Attempt::Cut(_));
            // A program that was cut off was cut off by one of the limits.
            let ending = ended(shared, own).filter(|_| cut || !settled);
            // A try with no time left must not hide what the one before it found.
            if ending.is_none() || last.is_none() {
                last = Some(attempt);
            }
            if let Some(ending) = ending {
                break ending;
            }
            let Some(pause) = self.retry_every.filter(|_| !settled) else { break Ending::Settled };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                ending = over(shared, own) => break ending,
            }
        };
        let took = started.map_or(Duration::ZERO, |started| started.elapsed());
        self.result(attempts, took, last.as_ref(), ending)
    }

    async fn attempt(&self, shared: &Shared, until: Instant) -> Attempt {
        let limit = until.saturating_duration_since(Instant::now());
        match &self.what {
            What::Script(path) => {
                let path = path.clone();
                let work = blocking(limit, &shared.stop, move |limits| scripts::run(&path, limits));
                work.await
            }
            What::BuiltIn(kind) => {
                let limit = limit.min(ATTEMPT_LIMIT);
                tokio::select! {
                    attempt = built_in(kind, shared, limit) => attempt,
                    () = stopped(&shared.stop) => Attempt::Cut("stopped".to_owned()),
                }
            }
        }
    }

    fn result(&self, attempts: u32, took: Duration, last: Option<&Attempt>, ending: Ending) -> CheckResult {
        let cut = matches!(ending, Ending::OverallLimit | Ending::Interrupted);
        let detail = match (last, ending) {
            (Some(attempt), _) => bounded(attempt.detail()),
            (None, Ending::Interrupted) => "stopped before it began".to_owned(),
            (None, _) => "the time was over before it began".to_owned(),
        };
        let (kind, path) = match &self.what {
            What::Script(path) => ("script", Some(path.clone())),
            What::BuiltIn(kind) => (kind.name(), None),
        };
        CheckResult {
            name: self.name.clone(),
            kind: kind.to_owned(),
            required: self.required,
            outcome: outcome(last, ending),
            ending,
            last_attempt: last.filter(|_| cut).map(|last| outcome(Some(last), Ending::Settled)),
            attempts,
            took: took.into(),
            detail,
            path,
        }
    }

    fn empty_result(&self) -> CheckResult {
        let lost = Attempt::Hopeless("the check ended unexpectedly".to_owned());
        self.result(0, Duration::ZERO, Some(&lost), Ending::Settled)
    }
}

async fn built_in(kind: &CheckKind, shared: &Shared, limit: Duration) -> Attempt {
    match kind {
        CheckKind::Unit { unit } => {
            let (systemctl, unit) = (shared.systemctl.clone(), unit.clone());
            blocking(limit, &shared.stop, move |limits| unit::check(&systemctl, &unit, limits)).await
        }
        CheckKind::Http { url, status, contains, ca } => {
            let expected = http::Expected { status, contains: contains.as_deref() };
            http::check(url, &expected, ca.as_deref(), limit).await
        }
        CheckKind::Tcp { address } => probe::tcp(address, limit).await,
        CheckKind::FileAge { path, max_age } => {
            let (path, max_age) = (path.clone(), *max_age);
            blocking(limit, &shared.stop, move |_| probe::file_age(&path, max_age)).await
        }
        CheckKind::Kubernetes { kubeconfig, context, namespaces, workloads } => {
            let context = context.as_deref();
            let asked = Asked { kubeconfig, context, namespaces, workloads };
            // Each request has the limit for itself; this one is for all of them.
            match tokio::time::timeout(limit, kubernetes::check(&asked, limit)).await {
                Ok(attempt) => attempt,
                Err(_) => {
                    Attempt::Unknown(format!("the API gave no answer within {}", super::Period::from(limit)))
                }
            }
        }
    }
}

/// Work that blocks, on a thread of its own. Programs end by their limit; what hangs in the kernel is left.
async fn blocking<F>(limit: Duration, stop: &Arc<AtomicBool>, work: F) -> Attempt
where
    F: FnOnce(&Limits<'_>) -> Attempt + Send + 'static,
{
    let stop = stop.clone();
    let task = tokio::task::spawn_blocking(move || {
        work(&Limits { timeout: Some(limit), grace: GRACE, stop: Some(&stop), ..Limits::default() })
    });
    match tokio::time::timeout(limit + MARGIN, task).await {
        Ok(Ok(attempt)) => attempt,
        Ok(Err(_)) => Attempt::Hopeless("the check ended unexpectedly".to_owned()),
        Err(_) => Attempt::Cut("it hangs and can't be ended".to_owned()),
    }
}

/// Which limit, if any, is reached.
fn ended(shared: &Shared, own: Option<Instant>) -> Option<Ending> {
    let now = Instant::now();
    if shared.stop.load(Ordering::Relaxed) {
        Some(Ending::Interrupted)
    } else if now >= shared.deadline {
        Some(Ending::OverallLimit)
    } else if own.is_some_and(|own| now >= own) {
        Some(Ending::OwnLimit)
    } else {
        None
    }
}

/// Waits until one of them is.
async fn over(shared: &Shared, own: Option<Instant>) -> Ending {
    loop {
        if let Some(ending) = ended(shared, own) {
            return ending;
        }
        let until = own.map_or(shared.deadline, |own| own.min(shared.deadline));
        tokio::time::sleep_until(until.min(Instant::now() + TICK)).await;
    }
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(TICK).await;
    }
}
