//! A manager of the API version before this one, as a program of its own: what a site finds where nobody has upgraded yet.
//!
//! It is started like `holdfast image-manager`, by sites and by people. `HOLDFAST_TEST_ACT_AS="VERSION OLDEST NEWEST"` makes it a
//! program of another version, which speaks these versions of the API: one that a site can't talk to, or one of the next release.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};
use images::identity::Token;
use images::manager::{Api, Join, Options, run};
use images::settings::Settings;
use logic::images::{NodeName, Program};
use tokio_util::sync::CancellationToken;

static VERSION: LazyLock<(String, Api)> = LazyLock::new(|| {
    let text = std::env::var("HOLDFAST_TEST_ACT_AS").unwrap_or_default();
    match text.split(' ').collect::<Vec<_>>()[..] {
        [version, oldest, newest] => {
            let number = |text: &str| text.parse().unwrap_or_default();
            (version.to_owned(), Api { version: number(newest), min_version: number(oldest) })
        }
        _ => {
            let before = wire::API_VERSION - 1;
            ("0.0.9".to_owned(), Api { version: before, min_version: wire::API_MIN_VERSION.min(before) })
        }
    }
});

#[derive(Parser)]
#[command(name = "holdfast", version = VERSION.0.as_str())]
struct Cli {
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    ImageManager(Box<ImageManager>),
}

#[derive(Args)]
struct ImageManager {
    #[arg(long)]
    disk: PathBuf,
    #[arg(long)]
    init: bool,
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    identity: PathBuf,
    #[arg(long)]
    node: NodeName,
    #[arg(long)]
    join: Option<String>,
    #[arg(long)]
    token: Option<Token>,
    #[arg(long)]
    end_with_stdin: bool,
}

#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Config {
    images: Settings,
}

fn settings(config: Option<&Path>) -> Result<Settings, Box<dyn Error>> {
    let Some(config) = config else { return Ok(Settings::default()) };
    let config: Config = toml::from_str(&std::fs::read_to_string(config)?)?;
    Ok(config.images)
}

fn main() -> Result<(), Box<dyn Error>> {
    let cli = Cli::parse();
    let Command::ImageManager(command) = cli.command;
    let command = *command;
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let settings = settings(cli.config.as_deref())?;
    let path = std::env::current_exe()?.display().to_string();
    let options = Options {
        disk: command.disk,
        expected: None,
        init: command.init,
        listen: command.listen,
        advertise: None,
        identity: Some(command.identity),
        join: command.join.map(|url| Join { url, token: command.token }),
        node: command.node,
        program: Program { path, version: VERSION.0.clone() },
        api: VERSION.1,
        admin: None,
        settings: settings.manager,
        origin: settings.origin,
    };
    let stop = CancellationToken::new();
    if command.end_with_stdin {
        let end = stop.clone();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            end.cancel();
        });
    }
    run(options, stop, |serving| {
        if let Ok(line) = serde_json::to_string(serving) {
            println!("{line}");
        }
    })?;
    Ok(())
}
