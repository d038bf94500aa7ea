//! Making a copy last that was brought up to date: only what was changed, where that is little. A `syncfs` would also
//! wait for whatever else is being written to the same file system, and this is done while the appliance is off.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use disk::Operation;
use disk::durable::sync_fs;
use disk::tree::{Kind, Manifest};
use rustix::fs::{CWD, Mode, OFlags, fsync, openat};

/// From so many on, one `syncfs` is quicker.
const FEW: usize = 32;

/// `before` is what the tree at `tree` was, all of it on disk; `after` what it is now.
pub fn make_last(
    tree: &Path,
    before: Option<&Manifest>,
    after: Option<&Manifest>,
) -> Result<(), disk::Error> {
    let changed = match (before, after) {
        (Some(before), Some(after)) => changed(before, after),
        _ => None,
    };
    let Some(changed) = changed else { return sync_fs(tree) };
    changed.iter().try_for_each(|path| sync(&tree.join(path)))
}

/// Files and directories that are not on disk yet; none: too many to be worth it. Whatever else there is (a link, a
/// pipe) is nothing but a name, and lasts with its directory.
fn changed(before: &Manifest, after: &Manifest) -> Option<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for entry in after.entries() {
        let old = before.get(&entry.path);
        let same = match entry.kind {
            // Of a file that was left alone at most the time of access was put right.
            Kind::File => old.is_some_and(|old| old.copy.ino == entry.copy.ino && old.source == entry.source),
            Kind::Directory => old.is_some_and(|old| old.copy == entry.copy),
            _ => true,
        };
        if !same {
            changed.push(PathBuf::from(OsStr::from_bytes(&entry.path)));
        }
        if changed.len() > FEW {
            return None;
        }
    }
    Some(changed)
}

fn sync(path: &Path) -> Result<(), disk::Error> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())
        .map_err(|error| disk::Error::io(Operation::Open, path, error))?;
    fsync(&file).map_err(|error| disk::Error::io(Operation::Sync, path, error))
}
