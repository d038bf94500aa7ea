//! Where a daemon's log goes: lines on stderr, as text or as JSON, for journald or whoever collects them.

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `HOLDFAST_LOG=debug` says more; `warn` and `error` say less.
pub const LEVEL: &str = "HOLDFAST_LOG";

pub fn start(format: LogFormat) {
    let wanted = std::env::var(LEVEL).ok();
    let level: Option<Level> = wanted.as_deref().and_then(|wanted| wanted.parse().ok());
    // journald knows the time by itself.
    let by_journald = std::env::var_os("JOURNAL_STREAM").is_some();
    let wanted_level = level.unwrap_or(Level::INFO);
    // A library's line for each request that fails names neither the request nor what it means; ours do.
    let libraries = if wanted_level >= Level::DEBUG { LevelFilter::TRACE } else { LevelFilter::OFF };
    let filter = Targets::new().with_default(wanted_level).with_target("kube_client", libraries);
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(wanted_level)
        .with_target(false)
        .with_ansi(false);
    // A second start changes nothing, and there is none.
    let _ = match (format, by_journald) {
        (LogFormat::Json, _) => {
            lines.json().flatten_event(true).with_timer(SystemTime).finish().with(filter).try_init()
        }
        (LogFormat::Text, true) => lines.without_time().finish().with(filter).try_init(),
        (LogFormat::Text, false) => lines.finish().with(filter).try_init(),
    };
    if let (Some(wanted), None) = (wanted, level) {
        tracing::warn!(wanted, "{LEVEL} is not one of error, warn, info, debug, trace");
    }
}
