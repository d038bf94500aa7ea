//! Where a daemon's log goes: lines on stderr, as text or as JSON, for journald or whoever collects them.

use clap::ValueEnum;
use tracing::Level;
use tracing_subscriber::fmt::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `HOLDFAST_LOG=debug` says more; `warn` and `error` say less.
const LEVEL: &str = "HOLDFAST_LOG";

pub fn start(format: LogFormat) {
    let wanted = std::env::var(LEVEL).ok();
    let level: Option<Level> = wanted.as_deref().and_then(|wanted| wanted.parse().ok());
    // journald knows the time by itself.
    let by_journald = std::env::var_os("JOURNAL_STREAM").is_some();
    let lines = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(level.unwrap_or(Level::INFO))
        .with_target(false)
        .with_ansi(false);
    // A second start changes nothing, and there is none.
    let _ = match (format, by_journald) {
        (LogFormat::Json, _) => lines.json().flatten_event(true).with_timer(SystemTime).try_init(),
        (LogFormat::Text, true) => lines.without_time().try_init(),
        (LogFormat::Text, false) => lines.try_init(),
    };
    if let (Some(wanted), None) = (wanted, level) {
        tracing::warn!(wanted, "{LEVEL} is not one of error, warn, info, debug, trace");
    }
}
