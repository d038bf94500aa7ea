//! `holdfast storage …`: arguments in, the part's functions called, results shown.

mod views;

use std::ffi::OsStr;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::storage::api::StorageVersionMigration;
use ::storage::by_hand::{Which, ask, follow};
use ::storage::connect::Cluster;
use ::storage::controller::{self, Options};
use ::storage::settings::Settings;
use ::storage::{install, offline, overview, run_to_the_end};
use clap::{Args, Subcommand};
use logic::exit::Exit;
use logic::period::Period;
use logic::storage::{BadResource, Gate, Phase, Resource, Supported};
use program::Invocation;
use serde::de::DeserializeOwned;
use service::terminated;
use tokio_util::sync::CancellationToken;

use self::views::{GateView, MigrationList, SettledView, StateList};
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};
use crate::manifests;
use crate::output;
use crate::witness::Console;

/// For the lease to be given back at the end.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(5);
/// Of a file that is read whole.
const FILE_LIMIT: u64 = 16 << 20;

#[derive(Debug, Args)]
pub struct StorageCommand {
    /// How to reach the cluster; otherwise $KUBECONFIG, ~/.kube/config, or the pod's own account
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Watch storage versions, and rewrite objects when one changes
    Controller(Controller),
    /// Rewrite every object of a resource now: after a key rotation, or when the cause of a failure is mended
    Migrate(Migrate),
    /// Show how each resource is stored, and how far its migration is
    Status {
        /// Only these, as cronjobs.batch; all, unless given
        resources: Vec<Resource>,
    },
    /// Say whether it is safe to move to an API server that understands these versions
    Gate {
        /// A list of {"resource":"cronjobs.batch","versions":[…]} or with "hashes", as JSON; - for standard input
        #[arg(long, value_name = "FILE")]
        supported: PathBuf,
    },
    /// Install the custom resources, an account with the least rights that work, and the controller
    Install {
        /// Run the controller in the cluster, from this image; otherwise it is left to you
        #[arg(long, value_name = "REF", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        image: Option<String>,
        /// Print the manifests instead
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
struct Controller {
    /// Carry out migrations that others ask for, and ask for none
    #[arg(long)]
    no_trigger: bool,
    /// An API server's URL, for each of them; otherwise those behind the service `kubernetes`
    #[arg(long, value_name = "URL")]
    api_server: Vec<String>,
    /// Discovery is read twice in this time
    #[arg(long, value_name = "TIME")]
    period: Option<Period>,
    /// Where /livez, /readyz and /metrics are
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Writes under way at once, at most
    #[arg(long, value_name = "N")]
    writes_at_once: Option<usize>,
    /// How to write the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

#[derive(Debug, Args)]
struct Migrate {
    /// As cronjobs.batch, or secrets. With --offline, whatever guard hands to a migration, which is not needed
    #[arg(required_unless_present_any = ["all", "offline"], conflicts_with = "all")]
    resources: Vec<String>,
    /// Every resource that has a storage version
    #[arg(long)]
    all: bool,
    /// Start the etcd and the kube-apiserver of storage.offline, migrate everything, and stop them
    #[arg(long, conflicts_with_all = ["all", "no_wait", "timeout"])]
    offline: bool,
    /// The servers, as JSON with the keys of storage.offline, instead of those; - for standard input
    #[arg(long, value_name = "FILE", requires = "offline")]
    servers: Option<PathBuf>,
    /// Ask for it, and leave it to the controller
    #[arg(long)]
    no_wait: bool,
    /// Give up waiting after this long; what is under way goes on
    #[arg(long, value_name = "TIME")]
    timeout: Option<Period>,
}

impl StorageCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let mut settings = config::load(global.config.as_deref())?.config.storage;
        settings.kubeconfig = self.kubeconfig.clone().or(settings.kubeconfig);
        settings.validate().map_err(|error| Failure::usage(error, ""))?;
        match &self.verb {
            Verb::Controller(command) => command.run(settings),
            Verb::Migrate(command) if command.offline => command.offline(settings, global),
            Verb::Migrate(command) => command.run(&settings, global),
            Verb::Status { resources } => status(&settings, resources, global),
            Verb::Gate { supported } => gate(&settings, supported, global),
            Verb::Install { image, dry_run } => install(&settings, image.as_deref(), *dry_run, global),
        }
    }
}

impl Controller {
    fn run(&self, mut settings: Settings) -> Result<Exit> {
        if !self.api_server.is_empty() {
            settings.api_servers.clone_from(&self.api_server);
        }
        settings.period = self.period.unwrap_or(settings.period);
        settings.admin = self.admin.or(settings.admin);
        settings.writes_at_once = self.writes_at_once.unwrap_or(settings.writes_at_once);
        settings.validate().map_err(|error| Failure::usage(error, ""))?;
        log::start(self.log_format);
        let options = Options { trigger: !self.no_trigger, migrator: true, lead: true };
        run_to_the_end(async {
            let cluster = Cluster::connect(settings.kubeconfig.as_deref()).await?;
            controller::run(&cluster, &settings, options, Arc::default(), until_terminated()).await
        })?;
        Ok(Exit::Done)
    }
}

impl Migrate {
    fn run(&self, settings: &Settings, global: &Global) -> Result<Exit> {
        let which = match self.all {
            true => Which::All,
            false => Which::These(
                self.resources
                    .iter()
                    .map(|text| {
                        text.parse().map_err(|error: BadResource| Failure::usage(error.to_string(), ""))
                    })
                    .collect::<Result<_>>()?,
            ),
        };
        let console = Console::new(global.quiet, global.progress_fd);
        let (migrations, exit) = run_to_the_end(async {
            let stop = until_terminated();
            let cluster = Cluster::connect(settings.kubeconfig.as_deref()).await?;
            let client = cluster.client()?;
            let asked = tokio::select! {
                asked = ask(&client, &which) => asked?,
                () = stop.cancelled() => return Ok((vec![], Exit::Interrupted)),
            };
            if self.no_wait {
                return Ok((asked, Exit::Done));
            }
            // Where a controller leads, it does the work and this one stands by; where none does, this one does it.
            let over = stop.child_token();
            let options = Options { trigger: false, migrator: true, lead: true };
            let mut working =
                std::pin::pin!(controller::run(&cluster, settings, options, Arc::default(), over.clone()));
            let mut latest = asked.clone();
            let mut said = Said::default();
            let followed = follow(&cluster, &asked, |now| {
                said.tell(now, &console);
                latest = now.to_vec();
            });
            let patience = self.timeout.map_or(Duration::MAX, Period::get);
            let exit = tokio::select! {
                ended = followed => outcome(&ended?, asked.len()),
                () = tokio::time::sleep(patience) => Exit::TimedOut,
                // It ends by itself only when it is told to, or can't begin.
                ended = &mut working => { ended?; return Ok((latest, Exit::Interrupted)) }
            };
            // The lease is given back, so that nobody has to wait for it.
            over.cancel();
            let _ = tokio::time::timeout(GIVE_BACK_WITHIN, working).await;
            Ok((latest, exit))
        })?;
        output::show(&MigrationList::of(&migrations), global.output)?;
        Ok(exit)
    }

    fn offline(&self, mut settings: Settings, global: &Global) -> Result<Exit> {
        const KEYS: &str = "etcd, kube-apiserver and kubeconfig";
        if let Some(file) = &self.servers {
            settings.offline = Some(read_json(file, &format!("it needs {KEYS}"))?);
        }
        let Some(offline) = &settings.offline else {
            let hint = format!("set {KEYS} in [storage.offline] of the configuration");
            return Err(Failure::usage("nothing says which etcd and kube-apiserver to start", hint));
        };
        let settings = &settings;
        log::start(LogFormat::Text);
        let settled = run_to_the_end(async {
            offline::migrate(offline, settings, Arc::default(), until_terminated()).await
        })?;
        output::show(&SettledView::of(&settled), global.output)?;
        Ok(match () {
            () if !settled.unfinished.is_empty() => Exit::Interrupted,
            () if settled.failed.is_empty() && settled.disputed.is_empty() => Exit::Done,
            () => Exit::MigrationFailed,
        })
    }
}

fn outcome(ended: &[StorageVersionMigration], asked: usize) -> Exit {
    match () {
        () if ended.iter().any(|it| it.phase() == Phase::Failed) => Exit::MigrationFailed,
        // A deleted one is missing.
        () if ended.len() < asked => Exit::Interrupted,
        () => Exit::Done,
    }
}

/// Cancelled by SIGTERM and SIGINT.
fn until_terminated() -> CancellationToken {
    let stop = CancellationToken::new();
    let asked_to_stop = stop.clone();
    tokio::spawn(async move {
        terminated().await;
        asked_to_stop.cancel();
    });
    stop
}

/// What a person was told last of each migration, so that a line is written when there is news.
#[derive(Default)]
struct Said(std::collections::BTreeMap<String, Phase>);

impl Said {
    fn tell(&mut self, migrations: &[StorageVersionMigration], console: &Console) {
        for migration in migrations {
            let (name, phase) = (migration.metadata.name.clone().unwrap_or_default(), migration.phase());
            let line = views::line(migration);
            let news = self.0.insert(name, phase) != Some(phase) && phase != Phase::Pending;
            if news {
                console.say(&line);
            }
            if news || phase == Phase::Running {
                let event = || serde_json::json!({ "type": "progress", "migration": migration });
                console.report(&line, news, event);
            }
        }
    }
}

fn status(settings: &Settings, only: &[Resource], global: &Global) -> Result<Exit> {
    let seen = run_to_the_end(async {
        let cluster = Cluster::connect(settings.kubeconfig.as_deref()).await?;
        overview::overview(&cluster.client()?).await
    })?;
    let unknown = |it: &&Resource| !seen.discovered.served.contains_key(it) && !seen.states.contains_key(it);
    if let Some(resource) = only.iter().find(unknown) {
        return Err(::storage::Error::NoSuchResource(resource.clone()).into());
    }
    output::show(&StateList::of(&seen, only, now(), patience(settings)), global.output)?;
    Ok(Exit::Done)
}

/// What stands in the way of an API server that understands what a file says, a line each.
pub fn blockers(supported: &Path, settings: &Settings) -> Result<Vec<String>> {
    asked(supported, settings).map(|gate| lines(&gate))
}

/// The same, of a cluster that one is connected to.
pub async fn blockers_in(cluster: &Cluster, supported: &Path, settings: &Settings) -> Result<Vec<String>> {
    let supported = read_supported(supported)?;
    let seen = overview::overview(&cluster.client().map_err(::storage::Error::from)?).await?;
    Ok(lines(&seen.gate(&supported, now(), patience(settings))))
}

fn lines(gate: &Gate) -> Vec<String> {
    gate.blockers.iter().map(|blocker| format!("{}: {}", blocker.resource, blocker.reason)).collect()
}

fn asked(supported: &Path, settings: &Settings) -> Result<Gate> {
    let supported = read_supported(supported)?;
    let seen = run_to_the_end(async {
        let cluster = Cluster::connect(settings.kubeconfig.as_deref()).await?;
        overview::overview(&cluster.client()?).await
    })?;
    Ok(seen.gate(&supported, now(), patience(settings)))
}

fn gate(settings: &Settings, supported: &Path, global: &Global) -> Result<Exit> {
    let gate = asked(supported, settings)?;
    let exit = if gate.blockers.is_empty() { Exit::Done } else { Exit::Refused };
    output::show(&GateView::of(&gate), global.output)?;
    Ok(exit)
}

fn unreadable(path: &Path, why: &dyn std::error::Error, hint: &str) -> Failure {
    Failure::usage(format!("can't read {}: {why}", path.display()), hint)
}

/// - is standard input.
fn read_json<T: DeserializeOwned>(path: &Path, hint: &str) -> Result<T> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(FILE_LIMIT).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(FILE_LIMIT).read_to_string(&mut text)),
    };
    read.map_err(|error| unreadable(path, &error, hint))?;
    serde_json::from_str(&text).map_err(|error| unreadable(path, &error, hint))
}

fn read_supported(path: &Path) -> Result<Vec<Supported>> {
    let hint = "write it as [{\"resource\":\"cronjobs.batch\",\"versions\":[\"v1\",\"v1beta1\"]}]";
    let list: Vec<Supported> = read_json(path, hint)?;
    // A name that can't be one would never match, and the gate would blame the cluster for it.
    for entry in &list {
        entry.resource.parse::<Resource>().map_err(|error| unreadable(path, &error, hint))?;
    }
    Ok(list)
}

/// This program as it migrates a cluster that is not running, told of its servers on standard input: for parts that have
/// such a cluster. Of the environment it has what configures it.
pub fn migrating_offline(global: &Global) -> Option<Invocation> {
    let mut invocation = Invocation::new(std::env::current_exe().ok()?);
    if let Some(file) = &global.config {
        invocation = invocation.args([OsStr::new("--config"), std::path::absolute(file).ok()?.as_os_str()]);
    }
    invocation.clear_env = true;
    let ours =
        |name: &OsStr| name == "PATH" || name.to_string_lossy().to_lowercase().starts_with("holdfast_");
    // What it says is for the message when it fails.
    invocation = invocation.env(log::LEVEL, "warn");
    invocation.env.extend(std::env::vars_os().filter(|(name, _)| ours(name)));
    Some(invocation.args(["storage", "migrate", "--offline", "--servers", "-"]))
}

fn install(settings: &Settings, image: Option<&str>, dry_run: bool, global: &Global) -> Result<Exit> {
    let mut objects = install::custom_resources();
    objects.extend(install::rights());
    objects.extend(image.map(install::deployment).unwrap_or_default());
    if dry_run {
        return manifests::print(&objects, global);
    }
    run_to_the_end(async {
        let cluster = Cluster::connect(settings.kubeconfig.as_deref()).await?;
        Ok(install::apply(&cluster.client()?, &objects).await?)
    })?;
    manifests::name(&objects);
    if image.is_none() && !global.quiet {
        eprintln!("no --image was given: run `holdfast storage controller` where it reaches the cluster");
    }
    Ok(Exit::Done)
}

/// In seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A heartbeat comes with every pass; one may be late by a whole period without anything being wrong.
fn patience(settings: &Settings) -> i64 {
    i64::try_from(settings.period.get().as_secs() * 2).unwrap_or(i64::MAX)
}
