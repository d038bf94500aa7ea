//! What digests turned out to be, on disk: nothing is fetched twice, also not after a restart.
//!
//! Only verdicts are kept, which follow from content. A damaged entry is dropped, and its digest looked at again. The
//! files are one process's at a time: a second one works from what it reads and writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use disk::{Lock, durable};
use oci::chain;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::image::{Rules, Verdict};
use trust::digest::Digest;

/// The number goes up when old entries would be misread.
const FILE: &str = "releases.v1";
const LOCK: &str = "lock";
/// Entries are about a kilobyte each.
const FILE_LIMIT: u64 = 1 << 30;
const TAGS_LIMIT: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    digest: Digest,
    /// What the verdict depended on.
    rules: String,
    verdict: Verdict,
    /// Of a list, the image that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Digest>,
}

/// Of each tag of a source, what it last pointed at.
pub(super) type Tags = BTreeMap<String, Digest>;

pub struct Cache {
    /// None: only in memory.
    directory: Option<PathBuf>,
    inner: Mutex<Inner>,
    _lock: Option<Lock>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<(Digest, String), Entry>,
    tags: HashMap<String, Tags>,
    /// There are lines in the file that are of no use.
    untidy: bool,
}

impl Cache {
    pub fn in_memory() -> Self {
        Self { directory: None, inner: Mutex::default(), _lock: None }
    }

    /// Without a directory that can be used it still works, but forgets; that is logged.
    pub fn open(directory: &Path) -> Self {
        let mut inner = Inner::default();
        let lock = match take(directory) {
            Ok(lock) => lock,
            Err(error) => {
                tracing::warn!(
                    directory = %directory.display(), error = %chain(&error),
                    "the cache cannot be used: releases will be fetched again after a restart"
                );
                return Self::in_memory();
            }
        };
        match durable::read_limited(&directory.join(FILE), FILE_LIMIT) {
            Ok(bytes) => inner.fill(&bytes.unwrap_or_default()),
            Err(error) => tracing::warn!(error = %chain(&error), "the cache cannot be read; starting anew"),
        }
        if lock.is_none() {
            tracing::warn!(
                directory = %directory.display(),
                "the cache is another process's: what is fetched here will not be kept"
            );
        }
        Self { directory: Some(directory.to_owned()), inner: Mutex::new(inner), _lock: lock }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to write, if this process may.
    fn writable(&self) -> Option<&Path> {
        self._lock.as_ref().and(self.directory.as_deref())
    }

    pub(super) fn get(&self, digest: &Digest, rules: &Rules) -> Option<Verdict> {
        let inner = self.inner();
        let of = |rules: String| inner.entries.get(&(digest.clone(), rules));
        let entry = of(rules.of_releases()).or_else(|| of(rules.of_refusals()))?;
        Some(entry.verdict.clone())
    }

    /// Keeps a verdict, on disk when this returns. Blocks.
    pub(super) fn put(&self, digest: &Digest, rules: &Rules, verdict: Verdict, child: Option<Digest>) {
        let rules = match verdict {
            Verdict::Release(_) => rules.of_releases(),
            Verdict::Other { .. } | Verdict::Refused { .. } => rules.of_refusals(),
        };
        let entry = Entry { digest: digest.clone(), rules: rules.clone(), verdict, child };
        let line = line(&entry);
        let mut inner = self.inner();
        inner.entries.insert((digest.clone(), rules), entry);
        if let Some(directory) = self.writable() {
            warn_of(durable::append_durably(&directory.join(FILE), &line));
        }
    }

    /// After a complete look at all sources: drops what none of them has. Blocks.
    pub(crate) fn retain(&self, seen: &HashSet<Digest>) {
        let mut inner = self.inner();
        // The image that decided about a list may have a tag of its own one day.
        let children = inner.entries.values().filter(|entry| seen.contains(&entry.digest));
        let children: HashSet<Digest> = children.filter_map(|entry| entry.child.clone()).collect();
        let before = inner.entries.len();
        inner.entries.retain(|(digest, _), _| seen.contains(digest) || children.contains(digest));
        if inner.entries.len() == before && !inner.untidy {
            return;
        }
        if let Some(directory) = self.writable() {
            let mut lines: Vec<_> = inner.entries.values().map(line).collect();
            lines.sort();
            let written = durable::write_durably_with(&directory.join(FILE), |file| {
                use std::io::Write as _;
                let mut file = std::io::BufWriter::new(file);
                for line in lines {
                    file.write_all(&line)?;
                    file.write_all(b"\n")?;
                }
                file.flush()
            });
            warn_of(written);
        }
        inner.untidy = false;
    }

    /// What the tags of a source last pointed at. Blocks.
    pub(super) fn tags(&self, source: &str) -> Tags {
        let mut inner = self.inner();
        if let Some(tags) = inner.tags.get(source) {
            return tags.clone();
        }
        let file = self.directory.as_deref().map(|directory| directory.join(tags_file(source)));
        let bytes = file.and_then(|file| durable::read_limited(&file, TAGS_LIMIT).ok().flatten());
        let tags: Tags = bytes.and_then(|bytes| parse(bytes.trim_ascii_end())).unwrap_or_default();
        inner.tags.insert(source.to_owned(), tags.clone());
        tags
    }

    /// Blocks.
    pub(super) fn set_tags(&self, source: &str, tags: Tags) {
        let mut inner = self.inner();
        if inner.tags.get(source) == Some(&tags) {
            return;
        }
        if let Some(directory) = self.writable() {
            warn_of(durable::write_durably(&directory.join(tags_file(source)), &line(&tags)));
        }
        inner.tags.insert(source.to_owned(), tags);
    }
}

impl Inner {
    fn fill(&mut self, bytes: &[u8]) {
        let mut damaged = 0_u64;
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse::<Entry>(line) {
                Some(entry) => {
                    let key = (entry.digest.clone(), entry.rules.clone());
                    self.untidy |= self.entries.insert(key, entry).is_some();
                }
                None => damaged += 1,
            }
        }
        if damaged > 0 {
            self.untidy = true;
            tracing::warn!(damaged, "dropped damaged entries of the cache; their images are fetched again");
        }
    }
}

fn take(directory: &Path) -> Result<Option<Lock>, disk::Error> {
    let failed = |error| disk::Error::io(disk::Operation::Create, directory, error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    let lock = Lock::try_acquire(&directory.join(LOCK))?;
    if lock.is_some() {
        durable::sweep_temporaries(directory)?;
    }
    Ok(lock)
}

fn tags_file(source: &str) -> String {
    format!("tags-{}.v1", &blake3::hash(source.as_bytes()).to_hex()[..32])
}

/// A checksum, a blank, and JSON.
fn line<T: Serialize>(value: &T) -> Vec<u8> {
    // Maps with text keys only: it cannot fail, and an empty line is no entry.
    let json = serde_json::to_vec(value).unwrap_or_default();
    let mut line = checksum(&json).into_bytes();
    line.push(b' ');
    line.extend_from_slice(&json);
    line
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    let (sum, json) = line.split_at_checked(17)?;
    (sum == [checksum(json).as_bytes(), b" "].concat()).then(|| serde_json::from_slice(json).ok())?
}

fn checksum(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..16].to_owned()
}

fn warn_of(written: disk::Result<()>) {
    if let Err(error) = written {
        tracing::warn!(error = %chain(&error), "the cache could not be written");
    }
}
