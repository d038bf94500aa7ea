//! What a supervisor says about itself and its program, for others to read. Written whole or not at all, and not
//! synced: after a reboot it is about nobody.

use std::fs;
use std::io::Write;

use disk::durable::read_limited;
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::place::Place;

const LIMIT: u64 = 64 << 10;
/// A supervisor has a few; a process with more is somebody else.
const MOST_FILES: usize = 64;

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
    let mut bytes = serde_json::to_vec(status)?;
    match fs::write(&next, &bytes).and_then(|()| fs::rename(&next, place.status())) {
        // On a full disk over the old one, which has a block already: who reads half of it reads again.
        Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            let _ = fs::remove_file(&next);
            let mut file =
                fs::OpenOptions::new().write(true).create(true).truncate(false).open(place.status())?;
            bytes.resize(bytes.len().max(file.metadata()?.len().try_into().unwrap_or(0)), b' ');
            file.write_all(&bytes)
        }
        done => done,
    }
}

/// Who has the lock open, other than by what they say: the supervisor, if it lives; its keeper otherwise.
pub(super) fn holders(place: &Place) -> Vec<u32> {
    let lock = place.lock();
    let has = |pid: &u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        open.take(MOST_FILES).any(|fd| fs::read_link(fd.path()).is_ok_and(|path| path == lock))
    };
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<u32> = pids.filter(|pid| *pid != std::process::id() && has(pid)).collect();
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()
    };
    all.iter().copied().filter(|pid| parent(*pid).is_none_or(|parent| !all.contains(&parent))).collect()
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
