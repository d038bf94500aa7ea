//! `holdfast image-manager`: the manager of one disk.

use std::net::SocketAddr;
use std::path::PathBuf;

use ::images::identity::Token;
use ::images::manager::{self, Api, Join, Options};
use clap::Args;
use logic::exit::Exit;
use logic::images::{DiskId, NodeName, Program};
use tokio_util::sync::CancellationToken;

use super::node_name;
use crate::cli::Global;
use crate::config;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};
use crate::output;

#[derive(Debug, Args)]
pub struct ImageManagerCommand {
    /// The directory where the disk is mounted
    #[arg(long, value_name = "DIR")]
    disk: PathBuf,
    /// Make the directory a disk of a site, if it is none yet
    #[arg(long)]
    init: bool,
    /// Refuse to run on any other disk
    #[arg(long, value_name = "UUID")]
    disk_uuid: Option<DiskId>,
    /// Where other members of the site connect to
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:0")]
    listen: SocketAddr,
    /// The address that others are told, as HOST or HOST:PORT; the one that it listens on, unless given
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Where key and certificate are kept; /var/lib/holdfast/images/managers/UUID, unless given
    #[arg(long, value_name = "DIR")]
    identity: Option<PathBuf>,
    /// The site to be a member of, as https://HOST:PORT
    #[arg(long, value_name = "URL")]
    join: Option<String>,
    /// Of `holdfast image token create --join`; needed the first time only
    #[arg(
        long,
        value_name = "TOKEN",
        env = "HOLDFAST_JOIN_TOKEN",
        hide_env_values = true,
        requires = "join"
    )]
    token: Option<Token>,
    /// Read the token from this file
    #[arg(long, value_name = "FILE", requires = "join", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// What this machine is called; its host name, unless given
    #[arg(long, value_name = "NAME")]
    node: Option<NodeName>,
    /// Where /livez, /readyz and /metrics are; nowhere, unless given
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// End when standard input does: whoever started it has ended
    #[arg(long)]
    end_with_stdin: bool,
    /// How to write the log
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

impl ImageManagerCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        let settings = config::load(global.config.as_deref())?.config.images;
        let node = self.node.clone().map_or_else(|| node_name(settings.node.as_deref()), Ok)?;
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(super::read_token(file)?),
            (None, None) => None,
        };
        let options = Options {
            disk: self.disk.clone(),
            expected: self.disk_uuid.clone(),
            init: self.init,
            listen: self.listen,
            advertise: self.advertise.clone(),
            identity: self.identity.clone(),
            join: self.join.clone().map(|url| Join { url, token }),
            node,
            program: this_program(),
            api: Api::default(),
            admin: self.admin,
            settings: settings.manager,
            origin: settings.origin,
        };
        log::start(self.log_format);
        let cancelled = CancellationToken::new();
        if self.end_with_stdin {
            end_with_stdin(cancelled.clone());
        }
        manager::run(options, cancelled, |serving| {
            // For whoever started it: the only thing that it ever writes there.
            if let Ok(line) = serde_json::to_string(serving) {
                output::print(&format!("{line}\n"));
            }
        })
        .map_err(|error| {
            let exit = if error.is_passing() { Exit::TryAgain } else { Exit::Refused };
            Failure::new(exit, &error, error.hint())
        })?;
        Ok(Exit::Done)
    }
}

/// What managers are told apart by.
pub fn this_program() -> Program {
    let path = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    Program { path, version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn end_with_stdin(cancelled: CancellationToken) {
    std::thread::spawn(move || {
        // Nothing is ever said there; its end is all that counts.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        cancelled.cancel();
    });
}
