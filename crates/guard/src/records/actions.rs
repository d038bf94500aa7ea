//! `<backups>/actions.log`: what happened and why, one JSON object a line. For people and for support; nothing is
//! ever decided by it.

use std::fs;
use std::path::{Path, PathBuf};

use disk::durable::append_durably;
use logic::guard::{BootId, Seq};
use logic::host::DeploymentId;
use serde::{Deserialize, Serialize};

/// At this size the log becomes `actions.log.1`, and the one before that is dropped.
const ROTATE_AT: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Action {
    pub when: String,
    pub boot: BootId,
    pub seq: Seq,
    pub deployment: DeploymentId,
    pub step: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub reason: String,
    pub outcome: String,
}

pub fn append(path: &Path, action: &Action) -> Result<(), disk::Error> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() >= ROTATE_AT) {
        fs::rename(path, older(path))
            .map_err(|error| disk::Error::io(disk::Operation::Rename, path, error))?;
    }
    let line = serde_json::to_vec(action).unwrap_or_default();
    append_durably(path, &line)
}

fn older(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.1"))
}

/// All actions still on record, oldest first. A line that can't be read (a power cut, an editor) is passed over and
/// counted.
pub fn read(path: &Path) -> Result<(Vec<Action>, usize), disk::Error> {
    let mut actions = Vec::new();
    let mut unreadable = 0;
    for path in [&older(path), path] {
        let bytes = disk::durable::read_limited(path, 2 * ROTATE_AT)?.unwrap_or_default();
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(action) => actions.push(action),
                Err(_) => unreadable += 1,
            }
        }
    }
    Ok((actions, unreadable))
}
