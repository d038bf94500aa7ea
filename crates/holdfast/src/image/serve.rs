//! `holdfast image serve`: a site, on this machine.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use ::images::settings::Settings;
use ::images::site::{Error, Handle, Options, Service};
use clap::Args;
use logic::exit::Exit;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::manager;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};
use crate::output;

/// It decides and passes on; the work is done by managers.
const THREADS: usize = 2;

#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Where the API for people is, and where managers of other machines join
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The store; certificates and tokens lie beside it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// A disk of this machine, as the directory where it is mounted; may be given again
    #[arg(long, value_name = "DIR")]
    disk: Vec<PathBuf>,
    /// What this machine is called; its host name, unless given
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where /livez, /readyz and /metrics are; nowhere, unless given
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// How to write the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

impl Serve {
    fn settings(&self, global: &Global) -> Result<Settings> {
        let mut settings = config::load(global.config.as_deref())?.config.images;
        settings.listen = self.listen.unwrap_or(settings.listen);
        if let Some(state) = &self.state {
            settings.state.clone_from(state);
        }
        if !self.disk.is_empty() {
            settings.disks.clone_from(&self.disk);
        }
        settings.node = self.node.clone().or(settings.node);
        settings.admin = self.admin.or(settings.admin);
        Ok(settings)
    }

    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = self.settings(global)?;
        log::start(self.log_format);
        let program = manager::this_program();
        let options = Options {
            settings,
            program: PathBuf::from(&program.path),
            version: program.version,
            manager_arguments: manager_arguments(global),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::new(Exit::Unexpected, &error, "see the limits on processes and memory")
            })?;
        runtime.block_on(self.serve(options, global))
    }

    async fn serve(&self, options: Options, global: &Global) -> Result<Exit> {
        let failed = |error: Error| Failure::new(Exit::Refused, &error, error.hint());
        let unexpected = |error: std::io::Error| {
            Failure::new(Exit::Unexpected, &error, "see the limits on file descriptors")
        };
        let site = Service::bind(options).await.map_err(failed)?;
        let address = site.address().map_err(unexpected)?;
        let scheme = if address.ip().is_loopback() { "http" } else { "https" };
        // For whoever started it, and left the port to the system.
        output::print(&format!("{scheme}://{address}\n"));
        let (handle, stop) = (site.handle(), CancellationToken::new());
        let mut hangups = signal(SignalKind::hangup()).map_err(unexpected)?;
        service::notify("READY=1");
        let running = site.run(stop.clone());
        tokio::pin!(running);
        loop {
            tokio::select! {
                () = &mut running => break,
                () = service::terminated(), if !stop.is_cancelled() => {
                    service::notify("STOPPING=1");
                    stop.cancel();
                }
                Some(()) = hangups.recv() => {
                    service::reloading();
                    self.reload(&handle, global).await;
                    service::notify("READY=1");
                }
            }
        }
        Ok(Exit::Done)
    }

    /// The same flags over the files as they are now. What can't be taken over leaves everything as it was.
    async fn reload(&self, handle: &Handle, global: &Global) {
        let settings = match self.settings(global) {
            Ok(settings) => settings,
            Err(failure) => {
                return tracing::warn!(cause = failure.error, "the configuration is not taken over");
            }
        };
        match handle.reload(settings).await {
            Ok(()) => tracing::info!("the configuration was taken over"),
            Err(error) => {
                tracing::warn!(cause = %error, hint = error.hint(), "the configuration is not taken over")
            }
        }
    }
}

/// Managers read the same configuration.
fn manager_arguments(global: &Global) -> Vec<OsString> {
    let config = global.config.iter();
    config
        .flat_map(|file| {
            [OsString::from("--config"), std::path::absolute(file).unwrap_or_else(|_| file.clone()).into()]
        })
        .collect()
}
