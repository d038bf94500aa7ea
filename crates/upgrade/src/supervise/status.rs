//! What a supervisor says about itself and its program, for others to read. Written whole or not at all, and not
//! synced: after a reboot it is about nobody.

use std::fs;

use disk::durable::read_limited;
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::place::Place;

const LIMIT: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub supervisor: u32,
    /// When the supervisor began, by the kernel's count: with its number, this names a process beyond doubt.
    pub born: u64,
    /// The release that it was started from.
    pub release: String,
    /// None while it waits to start the program again.
    pub pid: Option<u32>,
    /// How often the program was started again.
    pub restarts: u32,
    pub last_exit: Option<String>,
    /// When the program was started, or ended.
    pub since: String,
    /// The program has said so, since it was started last.
    pub ready: bool,
    /// In the program's words.
    pub said: Option<String>,
    pub stop_timeout_millis: u64,
}

/// What the supervisor in charge says; none where there is none, or where it has not said anything yet.
pub fn read(place: &Place) -> Result<Option<Status>> {
    if !place.is_held()? {
        return Ok(None);
    }
    let bytes = read_limited(&place.status(), LIMIT)?.unwrap_or_default();
    let status: Option<Status> = serde_json::from_slice(&bytes).ok();
    Ok(status.filter(|status| born(status.supervisor) == Some(status.born)))
}

pub(super) fn write(place: &Place, status: &Status) -> std::io::Result<()> {
    let next = place.run().join(format!("{}status", disk::RESERVED_PREFIX));
    fs::write(&next, serde_json::to_vec(status)?)?;
    fs::rename(&next, place.status())
}

/// The 22nd field of its `stat`; the second, the name, may hold anything, brackets too. None for the dead, also for
/// those whom nobody has asked about yet.
pub(super) fn born(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}
