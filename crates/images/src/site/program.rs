//! Which program default managers run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use logic::images::Program;

use super::error::{Error, Result};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Of what it prints.
const MOST_BYTES: usize = 4096;

/// The configured one, or this very program where none is configured. `version` is this program's, where that is known to be
/// what its file holds: later it may have been exchanged for a newer one.
pub(super) async fn default_program(
    configured: Option<&Path>,
    own: &Path,
    version: Option<&str>,
) -> Result<Program> {
    let path = configured.unwrap_or(own);
    let version = match version {
        Some(version) if path == own => version.to_owned(),
        _ => ask(path).await?,
    };
    Ok(Program { path: path.display().to_string(), version })
}

/// `holdfast --version` ends its first line with it.
async fn ask(path: &Path) -> Result<String> {
    let failed = |what: String| Error::Program { path: PathBuf::from(path), what };
    let running = tokio::process::Command::new(path)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIMEOUT, running)
        .await
        .map_err(|_| failed(format!("no answer within {} s", TIMEOUT.as_secs())))?
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() || output.stdout.len() > MOST_BYTES {
        return Err(failed("it does not say its version".to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let word = text.lines().next().and_then(|line| line.split_whitespace().last());
    word.map(str::to_owned).ok_or_else(|| failed("it says nothing".to_owned()))
}
