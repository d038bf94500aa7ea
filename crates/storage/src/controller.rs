//! The controller as a whole: who leads, the trigger, the migrations; until it is asked to stop.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kubernetes::connect::Cluster;
use kubernetes::lead::Candidate;
use logic::storage::{Resource, Rhythm};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::api::{StorageState, StorageVersionMigration};
use crate::error::Error;
use crate::metrics::Metrics;
use crate::migrations::Migrations;
use crate::migrator::Migrator;
use crate::settings::Settings;
use crate::trigger::{Notice, Standing, Standings, Trigger};
use crate::watch::{CustomResourceDefinition, Told, follow};

const LEASE: &str = "holdfast-storage";
/// What a watch tells and nobody has looked at yet. A watch waits when it is full.
const UNREAD: usize = 64;
/// Objects held at once while a watch begins. Definitions can be a megabyte each.
const PAGE: u32 = 100;
const DEFINITIONS: u32 = 8;
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Which parts of it run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub trigger: bool,
    pub migrator: bool,
    /// Only while no other controller does; otherwise somebody else sees to that.
    pub lead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { trigger: true, migrator: true, lead: true }
    }
}

/// Runs until `stop`, with its admin port if it has one.
pub async fn run(
    cluster: &Cluster,
    settings: &Settings,
    options: Options,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let admin = settings.admin.map(|address| admin::serve(address, Arc::clone(&metrics)));
    let admin = async {
        match admin {
            Some(admin) => admin.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = admin => ended,
        ended = lead(cluster, settings, options, metrics, stop) => ended,
    }
}

async fn lead(
    cluster: &Cluster,
    settings: &Settings,
    options: Options,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<(), Error> {
    if !installed(cluster, &stop).await? {
        return Ok(());
    }
    // Connected and answered once: from here on it needs less of its code.
    service::forget_the_start();
    let period = settings.period.get();
    let rhythm = Rhythm { period, first: period };
    let standings = || watch::Sender::new(None);
    if !options.lead {
        metrics.leads(true);
        return term(cluster, settings, options, rhythm, standings(), metrics, stop).await;
    }
    let mut candidate = Candidate::new(cluster.client()?, &settings.namespace, LEASE, settings.lease.get());
    tracing::info!(me = candidate.me(), "waiting to lead");
    let fenced = cluster.fenced(candidate.fence());
    let ended = candidate.terms(&stop, |over| {
        let metrics = Arc::clone(&metrics);
        let term = term(&fenced, settings, options, rhythm, standings(), Arc::clone(&metrics), over);
        async move {
            metrics.leads(true);
            let ended = term.await;
            metrics.leads(false);
            ended.err()
        }
    });
    match ended.await {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Where resources stood when there was nothing left to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    pub settled: Vec<Resource>,
    /// Their migrations failed, and say why.
    pub failed: Vec<Resource>,
    pub disputed: Vec<Resource>,
    /// It was stopped before these were done.
    pub unfinished: Vec<Resource>,
}

/// Triggers and migrates, without asking who leads, until there is nothing left to do. What an earlier run left is gone on
/// from, if its heartbeats are not older than `resume_within`.
pub async fn settle(
    cluster: &Cluster,
    settings: &Settings,
    resume_within: Duration,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<Settled, Error> {
    if !installed(cluster, &stop).await? {
        return Err(Error::Interrupted);
    }
    let rhythm = Rhythm { period: settings.period.get(), first: resume_within };
    let options = Options { lead: false, ..Options::default() };
    let standings = watch::Sender::new(None);
    let mut seen = standings.subscribe();
    let over = stop.child_token();
    let term = term(cluster, settings, options, rhythm, standings, metrics, over.clone());
    let done = async {
        let at_rest = |standings: &Standings| {
            standings.as_ref().is_some_and(|all| all.values().all(|it| *it != Standing::UnderWay))
        };
        // It fails when the trigger ended, and with it what could be waited for.
        let _ = seen.wait_for(at_rest).await;
        over.cancel();
    };
    let (ended, ()) = tokio::join!(term, done);
    ended?;
    let mut settled = Settled::default();
    let seen = seen.borrow();
    // Before the first look at everything, nothing is known of anything.
    let Some(standings) = seen.as_ref() else { return Err(Error::Interrupted) };
    for (resource, standing) in standings {
        let list = match standing {
            Standing::Settled => &mut settled.settled,
            Standing::Failed => &mut settled.failed,
            Standing::Disputed => &mut settled.disputed,
            Standing::UnderWay => &mut settled.unfinished,
        };
        list.push(resource.clone());
    }
    Ok(settled)
}

/// The time in which this controller works. Nothing is written any more when it returns.
async fn term(
    cluster: &Cluster,
    settings: &Settings,
    options: Options,
    rhythm: Rhythm,
    standings: watch::Sender<Standings>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let (told, migrations_inbox) = mpsc::channel(UNREAD);
    let migrations: Api<StorageVersionMigration> = Api::all(cluster.watching()?);
    let migrator = match options.migrator {
        true => Some(Migrator::new(cluster.client()?, settings, Arc::clone(&metrics))),
        false => None,
    };
    // Without a trigger there is nobody to be told, and nothing may wait for somebody to listen.
    let (notices, triggering) = match options.trigger {
        true => {
            let (notices, inbox) = mpsc::channel(UNREAD);
            let triggering =
                triggering(cluster, settings, rhythm, notices.clone(), inbox, standings, metrics)?;
            (Some(notices), Some(triggering))
        }
        false => (None, None),
    };
    let queue = Migrations::new(migrator, settings.migrations_at_once, notices);
    let until = stop.clone();
    tokio::select! {
        // It alone says when the term is over: when the last migration has ended.
        () = queue.run(migrations_inbox, stop) => {}
        () = follow(migrations, "StorageVersionMigrations", PAGE, told, Some) => {}
        () = async {
            if let Some(triggering) = triggering {
                until.run_until_cancelled(triggering).await;
            }
            std::future::pending().await
        } => {}
    }
    Ok(())
}

/// The trigger with what it is told.
fn triggering(
    cluster: &Cluster,
    settings: &Settings,
    rhythm: Rhythm,
    notices: mpsc::Sender<Notice>,
    inbox: mpsc::Receiver<Notice>,
    standings: watch::Sender<Standings>,
    metrics: Arc<Metrics>,
) -> Result<impl Future<Output = ()>, Error> {
    let watching = cluster.watching()?;
    let states: Api<StorageState> = Api::all(watching.clone());
    let definitions: Api<CustomResourceDefinition> = Api::all(watching);
    let servers = settings.api_servers.clone();
    let trigger = Trigger::new(cluster, servers, rhythm, notices.clone(), standings, metrics)?;
    let of_definition = |told| Some(Notice::Definition(Box::new(told)));
    Ok(async move {
        tokio::select! {
            () = follow(states, "StorageStates", PAGE, notices.clone(), of_state) => {}
            () = follow(definitions, "CustomResourceDefinitions", DEFINITIONS, notices, of_definition) => {}
            () = trigger.run(inbox) => {}
        }
    })
}

/// A state that somebody deleted is made anew.
fn of_state(told: Told<StorageState>) -> Option<Notice> {
    match told {
        Told::Event(Event::Delete(state)) => Some(Notice::Resource(state.spec.resource)),
        Told::Event(_) | Told::Broken => None,
    }
}

/// False if it was asked to stop before the API server answered.
async fn installed(cluster: &Cluster, stop: &CancellationToken) -> Result<bool, Error> {
    let states: Api<StorageState> = Api::all(cluster.client()?);
    let mut said = false;
    loop {
        let one = ListParams::default().limit(1);
        let listed = tokio::select! {
            () = stop.cancelled() => return Ok(false),
            listed = states.list(&one) => listed,
        };
        match listed {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(Error::NotInstalled),
            Err(error @ kube::Error::Api(_)) if !may_pass(&error) => {
                return Err(Error::request("the list of StorageStates")(error));
            }
            Err(error) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::warn!(cause = %error, "the API server does not answer yet; waiting for it");
                }
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

fn may_pass(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 429 || status.code >= 500)
}
