//! Where the programs of Kubernetes are.

use std::path::PathBuf;
use std::process::Command;

/// What `scripts/kube-apiserver` says of a command of that source, which builds it where it is not there yet; or why there is
/// none.
pub fn found(command: &str) -> Result<PathBuf, String> {
    let given = command.to_uppercase().replace('-', "_");
    match std::env::var_os(&given).filter(|given| !given.is_empty()) {
        Some(none) if none == "none" => return Err(format!("{given} is none")),
        Some(path) => return Ok(path.into()),
        None => {}
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/kube-apiserver");
    let output = Command::new(script).arg(command).output().map_err(|error| format!("{script}: {error}"))?;
    match output.status.success() {
        true => Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
        false => Err(format!("there is no {command}:\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}
