//! `holdfast agent run`: until it is told to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::agent::desk::Files;
use ::agent::metrics::Metrics;
use ::agent::settings::Settings;
use ::agent::{Ended, Stop};
use clap::Args;
use logic::exit::Exit;
use tokio::net::TcpListener;

use super::begin::{Parts, runtime};
use super::cluster;
use super::itself::become_it;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};

/// By then it has looked around once.
const STARTED: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Args)]
pub struct Run {
    /// The appliance that is kept up to date; the only one, unless given
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    appliance: Option<String>,
    /// Keep the Kubernetes cluster up to date in which it runs, or that KUBECONFIG names, by its ClusterVersion
    #[arg(long)]
    cluster: bool,
    /// Where /livez, /readyz and /metrics are; nowhere, unless given
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// How to write the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

impl Run {
    pub fn run(&self, mut settings: Settings, global: &Global) -> Result<Exit> {
        settings.appliance = self.appliance.clone().or(settings.appliance);
        settings.admin = self.admin.or(settings.admin);
        log::start(self.log_format);
        if self.cluster {
            return cluster::run(settings, config::load(global.config.as_deref())?.config.storage);
        }
        let (stop, admin) = (Arc::new(Stop::default()), settings.admin);
        let lock = locked(&settings)?;
        let parts = Parts::of(settings, global)?;
        let itself = Arc::clone(&parts.itself);
        // The program of a release, where one took over; it has the lock for itself.
        if let Some(program) = itself.successor() {
            drop(lock);
            let error = become_it(&program);
            return Err(Failure::new(Exit::Unexpected, &error, format!("see {}", program.display())));
        }
        let metrics = Arc::clone(&parts.metrics);
        let runtime = runtime()?;
        let ended = runtime.block_on(async {
            let pages = admin_pages(admin, metrics).await?;
            let signals = Arc::clone(&stop);
            tokio::spawn(async move {
                service::terminated().await;
                service::notify("STOPPING=1");
                signals.stop();
            });
            service::notify("READY=1");
            let started = Arc::clone(&itself);
            tokio::spawn(async move {
                tokio::time::sleep(STARTED).await;
                started.is_up();
                service::forget_the_start();
            });
            let ended = parts.within(&stop, None).await;
            if ended.is_ok() {
                itself.is_up();
            }
            if let Some(pages) = pages {
                pages.abort();
            }
            ended
        })?;
        drop(runtime);
        drop(lock);
        // Each look at it counts as a start: one that is told to stop does not look.
        match ended {
            Ended::SteppedDown => match itself.successor() {
                Some(program) => {
                    let error = become_it(&program);
                    Err(Failure::new(Exit::Unexpected, &error, format!("see {}", program.display())))
                }
                None => Ok(Exit::Done),
            },
            Ended::Stopped | Ended::Answered => Ok(Exit::Done),
        }
    }
}

/// There is one agent to a directory.
fn locked(settings: &Settings) -> Result<disk::Lock> {
    Files::at(&settings.directory).lock()?.ok_or_else(|| Failure {
        exit: Exit::TryAgain,
        error: format!("an agent runs in {} already", settings.directory.display()),
        causes: vec![],
        hint: "`holdfast agent status` shows what it does".to_owned(),
    })
}

pub(super) async fn admin_pages(
    admin: Option<SocketAddr>,
    metrics: Arc<Metrics>,
) -> Result<Option<tokio::task::JoinHandle<()>>> {
    let Some(address) = admin else { return Ok(None) };
    let listener = TcpListener::bind(address).await.map_err(|error| Failure {
        exit: Exit::Usage,
        error: format!("can't listen on {address}: {error}"),
        causes: vec![],
        hint: "choose another address for --admin".to_owned(),
    })?;
    let pages = move |path: &str| match path {
        "/livez" | "/readyz" => Some((http::StatusCode::OK, "ok\n".to_owned())),
        "/metrics" => Some((http::StatusCode::OK, metrics.text())),
        _ => None,
    };
    Ok(Some(tokio::spawn(service::admin::serve(listener, pages))))
}
