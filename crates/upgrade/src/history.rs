//! What became of each transaction, a line each, for people.

use logic::upgrade::{Kind, ReleaseVersion};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::layout::Layout;
use crate::transaction::End;

/// What is read back at most; older lines are left where they are.
const SHOWN: usize = 100;
const LIMIT: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub time: String,
    pub kind: Kind,
    pub from: ReleaseVersion,
    pub to: ReleaseVersion,
    pub committed: bool,
    /// Committed without proof that it becomes ready: it was switched off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
    /// Why it was undone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

pub fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn add(layout: &Layout, end: &End) -> Result<()> {
    let (begin, committed, why) = match end {
        End::Committed(begin) => (begin, true, String::new()),
        End::Undone { begin, why } => (begin, false, why.replace('\n', " ")),
    };
    let (from, to) = (begin.from.version.clone(), begin.to.version.clone());
    let unproven = end.is_unproven();
    let entry = Entry { time: now(), kind: begin.kind, from, to, committed, unproven, why };
    // A full disk does not undo what was done: the line is a courtesy.
    if let Ok(line) = serde_json::to_vec(&entry) {
        let _ = disk::durable::append_durably(&layout.history(), &line);
    }
    Ok(())
}

/// The last ones, oldest first. Lines that cannot be read are left out.
pub(crate) fn read(layout: &Layout) -> Result<Vec<Entry>> {
    let lines = lines(layout)?;
    let skip = lines.len().saturating_sub(SHOWN);
    Ok(entries(&lines[skip..]))
}

/// How many there are, and those after the first `skip`.
pub fn since(layout: &Layout, skip: u64) -> Result<(u64, Vec<Entry>)> {
    let lines = lines(layout)?;
    let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(lines.len());
    Ok((lines.len() as u64, entries(&lines[skip..])))
}

fn lines(layout: &Layout) -> Result<Vec<Vec<u8>>> {
    let bytes = disk::durable::read_limited(&layout.history(), LIMIT)?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

fn entries(lines: &[Vec<u8>]) -> Vec<Entry> {
    lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
