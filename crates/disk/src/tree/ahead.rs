//! Has a cold cache filled while a tree is copied. Making files is what the copying threads are for, and more of
//! them only wait for each other's locks; but what they read first (directories and inodes) a thread of its own can
//! fetch before they come to it. It must not change anything, and what it meets is for the copying to complain about.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, statat};

use super::dir::{Order, Root, join, list};
use super::meta::Kind;

/// Inodes of which a file system reads all when it reads one: 32 on XFS, and 16 on ext4, which reads on by itself.
const CLUSTER: u64 = 32;
/// How many entries it may be ahead: what is fetched too early is gone again before it is used.
const LEAD: u64 = 20_000;
const PAUSE: Duration = Duration::from_millis(2);

/// How far the copying is.
#[derive(Default)]
pub(crate) struct Reached {
    entries: AtomicU64,
    done: AtomicBool,
}

impl Reached {
    pub fn add(&self, entries: usize) {
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
    }

    /// Done when what is returned is dropped, however that comes about.
    pub fn until_dropped(&self) -> impl Drop {
        Finish(&self.done)
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the directories below `root`, and one inode of each cluster that their entries are in.
pub(crate) fn fetch(root: &Root, reached: &Reached) {
    let mut waiting = VecDeque::from([Vec::new()]);
    let (mut entries, mut front) = (0, true);
    // The threads that copy begin at both ends.
    while let Some(rel) = if front { waiting.pop_front() } else { waiting.pop_back() } {
        front = !front;
        while !reached.is_done() && entries > reached.entries.load(Ordering::Relaxed) + LEAD {
            std::thread::sleep(PAUSE);
        }
        if reached.is_done() {
            return;
        }
        let Ok(dir) = root.dir(&rel) else { continue };
        let Ok(listed) = list(root, &rel, &dir, Order::Inode) else { continue };
        entries += listed.len() as u64;
        let mut cluster = None;
        for entry in &listed {
            if cluster != Some(entry.ino / CLUSTER) {
                cluster = Some(entry.ino / CLUSTER);
                let _ = statat(&dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
            }
        }
        let below = listed.iter().filter(|entry| entry.kind == Kind::Directory);
        waiting.extend(below.map(|entry| join(&rel, entry.name.to_bytes())));
    }
}
