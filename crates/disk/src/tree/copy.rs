//! Copying a tree, and bringing an older copy up to date instead: the options, the outcome, and the order
//! of the phases. What happens to a single entry is in `engine`.

use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkdirat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::ahead::{self, Reached};
use super::attributes::stop_inheritance;
use super::content::Sharing;
use super::dir::Root;
use super::engine::{Engine, Known, Task};
use super::manifest::Manifest;
use super::meta::Time;
use super::pool;
use super::progress::Progress;
use super::remove::remove_with;
use super::snapshot::{self, Offer};
use super::worker::Worker;
use crate::error::{Error, Operation, Result};

/// More warnings than this are counted only.
pub(crate) const WARNING_LIMIT: usize = 100;
/// Coarse clocks of file systems tick at least this often; see [`Manifest::started`].
const RACY_MILLIS: u32 = 100;

/// Whether content is shared with the source where the file system can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClonePolicy {
    /// Yes, but for what of fragmented files is measured to be copied faster.
    #[default]
    Auto,
    /// Yes, also where it is slower: for when there is no room for a copy.
    Always,
    Never,
}

#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// 1: everything on the calling thread, entries in order of their names, so that the same tree gives
    /// the same system calls. More: entries in the order of their inodes, which is what a cold cache wants.
    /// 0: as many as suit the machine and the way of copying.
    pub threads: usize,
    pub clone: ClonePolicy,
    /// Take a snapshot where the source is a btrfs subvolume and the target is on the same file system.
    pub snapshot: bool,
    /// Make the copy durable (one `syncfs`) before returning.
    pub sync: bool,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions { threads: 0, clone: ClonePolicy::Auto, snapshot: true, sync: true }
    }
}

/// Where content is shared, threads beyond the cores only wait for each other; where it is read, they wait
/// for the disk, and more of them keep it busy. Two at least, for the one core of a small device waits too.
fn suitable_threads(shares: bool) -> usize {
    if shares { pool::cores().clamp(2, 8) } else { pool::reading_threads() }
}

/// How the content got into the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Shared with the source, copied when either changes.
    Reflink,
    /// Written out, byte by byte; also where there was no content at all.
    PlainCopy,
    /// A snapshot of the whole subvolume.
    Snapshot,
    /// Some files shared, some written.
    Mixed,
}

/// What an admin may want to know, although the copy is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Another file system (or subvolume) is mounted there; its content was copied like the rest.
    Crossed { path: PathBuf },
    /// A security label or a storage hint that the target does not take.
    AttributeDropped { path: PathBuf, name: String },
    /// The file's length changed while it was copied: the data was in use.
    ChangedWhileCopied { path: PathBuf },
    /// A subvolume that was copied entry by entry nevertheless, and why.
    SnapshotDeclined { path: PathBuf, why: &'static str },
}

#[derive(Debug)]
pub struct Copied {
    pub method: Method,
    /// Entries that are not directories.
    pub files: u64,
    /// Apparent bytes in files that were copied or shared in this run.
    pub bytes: u64,
    /// Of `bytes`, those that were written and not shared.
    pub bytes_written: u64,
    /// Entries that an update found to be as they should.
    pub left_alone: u64,
    pub warnings: Vec<Warning>,
    /// How many more warnings there were than are in the list.
    pub warnings_left_out: u64,
    pub started: Time,
    /// `None` after a snapshot, which costs nothing per file: [`super::survey`] of the (unchanging) copy
    /// makes it when there is time.
    pub manifest: Option<Manifest>,
}

/// Copies the directory `src` to `dst`, which must not exist; its parent must.
///
/// Kept: owner, mode, times, extended attributes with ACLs and labels, hard links within the tree, holes,
/// symbolic links, FIFOs, sockets, devices, names of any bytes. Left out: top-level names with
/// [`crate::RESERVED_PREFIX`]. What is mounted inside is copied too, with a warning.
///
/// The data must be quiet. A file that grows is copied up to its length at opening, one that shrinks up to
/// where it ends (both with a warning), one that vanishes is an error. After any error the part that was
/// made stays at `dst` for the caller to remove.
pub fn copy(src: &Path, dst: &Path, options: &CopyOptions, progress: &dyn Progress) -> Result<Copied> {
    let started = Time::now();
    let source = Root::open(src)?;
    let mut declined = None;
    if options.snapshot {
        match snapshot::offer(&source, dst)? {
            Offer::Yes => return snapshot::take(&source, dst, options, started),
            Offer::No => {}
            Offer::Declined(why) => {
                declined = Some(Warning::SnapshotDeclined { path: src.to_owned(), why });
            }
        }
    }
    match mkdirat(CWD, dst, Mode::RWXU) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(Error::Exists { path: dst.to_owned() }),
        Err(e) => return Err(Error::io(Operation::Create, dst, e)),
    }
    let target = Root::open(dst)?;
    stop_inheritance(target.fd()).map_err(|e| Error::io(Operation::SetAttribute, dst, e))?;
    let mut copied = walk(source, target, options, progress, None, started)?;
    copied.warnings.extend(declined);
    Ok(copied)
}

/// Brings `spare`, an older whole copy that no one else uses, up to date with `src`; the result is what
/// [`copy`] would have made. `manifest` must be the one of `spare`.
///
/// An entry is left alone where the source is still the inode, with the change time, that was copied, and
/// the spare's entry the one that was made of it then; anything else is replaced. After an error the spare
/// is neither the old state nor the new: the caller removes it.
pub fn update(
    src: &Path,
    spare: &Path,
    manifest: &Manifest,
    options: &CopyOptions,
    progress: &dyn Progress,
) -> Result<Copied> {
    let started = Time::now();
    let source = Root::open(src)?;
    if options.snapshot && matches!(snapshot::offer(&source, spare)?, Offer::Yes) {
        remove_with(spare, options.threads, progress)?;
        return snapshot::take(&source, spare, options, started);
    }
    let target = Root::open(spare)?;
    let known = Known { manifest, quiet_before: manifest.started.minus_millis(RACY_MILLIS) };
    walk(source, target, options, progress, Some(known), started)
}

fn walk(
    src: Root,
    dst: Root,
    options: &CopyOptions,
    progress: &dyn Progress,
    known: Option<Known<'_>>,
    started: Time,
) -> Result<Copied> {
    let sharing = Sharing::new(options.clone);
    let threads = match options.threads {
        0 => suitable_threads(sharing.find_out(&src, &dst)),
        threads => threads,
    };
    let engine = Engine {
        src,
        dst,
        by_name: threads == 1,
        progress,
        known,
        sharing,
        reached: Reached::default(),
        creator: (geteuid().as_raw(), getegid().as_raw()),
    };
    let first = [Task::Directory { rel: Vec::new(), parent_dev: engine.src.dev }];
    let workers = std::thread::scope(|scope| {
        if threads > 1 {
            scope.spawn(|| ahead::fetch(&engine.src, &engine.reached));
        }
        let _copying = engine.reached.until_dropped();
        pool::run(threads, first, Worker::new, |q, w, task| engine.work(q, w, task))
    })?;
    let mut total = Worker::new();
    workers.into_iter().for_each(|w| total.absorb(w));

    // Links between names can be made when all directories are there; the times of directories can be set
    // when all names are.
    let groups = engine.link_groups(&mut total);
    let workers =
        pool::run(threads.min(groups.len()).max(1), groups, Worker::new, |_, w, g| engine.link(w, &g))?;
    workers.into_iter().for_each(|w| total.absorb(w));
    engine.finish_directories(&mut total)?;

    let entries = std::mem::take(&mut total.entries);
    let sync = || match options.sync {
        true => rustix::fs::syncfs(engine.dst.fd()),
        false => Ok(()),
    };
    let (synced, manifest) = match threads {
        1 => (sync(), Manifest::new(started, entries)),
        // The disk and the sorting need not wait for each other.
        _ => std::thread::scope(|scope| {
            let syncing = scope.spawn(sync);
            let manifest = Manifest::new(started, entries);
            (syncing.join().unwrap_or(Err(Errno::IO)), manifest)
        }),
    };
    synced.map_err(|e| Error::io(Operation::SyncFileSystem, &engine.dst.path, e))?;
    let tally = total.tally;
    Ok(Copied {
        method: match (tally.shared > 0, tally.written > 0) {
            (true, true) => Method::Mixed,
            (true, false) => Method::Reflink,
            (false, _) => Method::PlainCopy,
        },
        files: tally.files,
        bytes: tally.bytes,
        bytes_written: tally.bytes_written,
        left_alone: tally.left_alone,
        warnings: total.warnings,
        warnings_left_out: total.warnings_left_out,
        started,
        manifest: Some(manifest),
    })
}
