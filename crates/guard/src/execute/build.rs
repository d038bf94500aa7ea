//! Building copies: of the data for a backup, of a copy for a restore. Complete, synced and checked, or failed.

use std::path::Path;

use disk::Journal;
use disk::tree::{self, Copied, CopyOptions, Manifest};
use logic::guard::{Operation, Place, Seq};

use super::{Executor, Watch};
use crate::device::{JournalEntry, exists};
use crate::error::{Doing, Error, Result, While};
use crate::records::copy_file;

impl<'a> Executor<'a> {
    /// Copies the data, or brings a recycled tree up to date with it.
    pub(super) fn build_backup(&mut self, to: &Place) -> Result<()> {
        let layout = &self.device.layout;
        let (from, to) = (layout.data.clone(), layout.path(to));
        let options = self.copy_options();
        let recycled = exists(&to).then(|| self.recycled_manifest()).flatten();
        let copied = match recycled {
            Some(manifest) => tree::update(&from, &to, &manifest, &options, &self.watch()),
            None => {
                tree::remove(&to).during(Doing::Backup)?;
                self.check_room(Doing::Backup, &from, &layout.staging())?;
                tree::copy(&from, &to, &options, &self.watch())
            }
        };
        let copied = copied.during(Doing::Backup)?;
        self.report(&copied);
        self.built = Some(copied);
        Ok(())
    }

    /// The list of files of the generation that was given up for this backup.
    pub(super) fn recycled_manifest(&self) -> Option<Manifest> {
        let journal = Journal::<JournalEntry>::read(&self.device.layout.journal()).ok()?;
        let old = journal.into_iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) => match *operation {
                Operation::Backup { recycle, .. } => recycle,
                _ => None,
            },
            _ => None,
        })?;
        Manifest::load(&copy_file::manifest_path(&self.device.layout.records(), old.number)).ok().flatten()
    }

    /// Which copy the restore under way is of.
    pub(super) fn restored_number(&self) -> Seq {
        let journal = Journal::<JournalEntry>::read(&self.device.layout.journal()).unwrap_or_default();
        let number = journal.into_iter().find_map(|entry| match entry {
            JournalEntry::Begin(operation) => match *operation {
                Operation::Restore { source, .. } => Some(source),
                _ => None,
            },
            _ => None,
        });
        number.unwrap_or_default()
    }

    /// Copies a copy beside the data, and makes sure that it is what was once backed up.
    pub(super) fn build_incoming(&mut self, from: &Place, to: &Place) -> Result<()> {
        let layout = &self.device.layout;
        let number = self.restored_number();
        // As it is now: an earlier step of the same plan may have given the copy another place, and its name to another.
        let records = copy_file::load_all(&layout.records()).during(Doing::Restore)?;
        if !records.files.iter().any(|file| file.record.number == number && file.record.place == *from) {
            let what = format!("it is not what stands in {}", layout.path(from).display());
            return Err(Error::CopyDamaged { number, what });
        }
        let (from, to) = (layout.path(from), layout.path(to));
        let parent = to.parent().unwrap_or(Path::new("/")).to_owned();
        tree::remove(&to).during(Doing::Restore)?;
        self.check_room(Doing::Restore, &from, &parent)?;
        let expected =
            Manifest::load(&copy_file::manifest_path(&layout.records(), number)).during(Doing::Restore)?;
        let copied = tree::copy(&from, &to, &self.copy_options(), &self.watch()).during(Doing::Restore)?;
        if let Some(expected) = expected
            && let Some(got) = &copied.manifest
            && let Some(what) = first_difference(&expected, got)
        {
            return Err(Error::CopyDamaged { number, what });
        }
        self.report(&copied);
        Ok(())
    }

    /// A copy is on disk when it returns: one `syncfs` for all of it.
    pub(super) fn copy_options(&self) -> CopyOptions {
        CopyOptions { threads: self.device.threads, sync: true, ..CopyOptions::default() }
    }

    pub(crate) fn watch(&self) -> Watch<'a> {
        Watch(self.witness)
    }

    pub(super) fn report(&self, copied: &Copied) {
        self.witness.note(&format!("{} files brought over by {}", copied.files, copied.method));
        for warning in copied.warnings.iter().take(10) {
            self.witness.note(&warning.to_string());
        }
    }

    pub(super) fn check_room(&self, doing: Doing, from: &Path, to: &Path) -> Result<()> {
        if tree::fits_beyond_doubt(from, to).during(doing)? {
            return Ok(());
        }
        let need = tree::measure(from, to, self.device.threads, &self.watch()).during(doing)?;
        let free = tree::free_space(to).during(doing)?;
        if need.bytes > free.bytes || free.inodes.is_some_and(|inodes| need.inodes > inodes) {
            let path = to.to_owned();
            return Err(Error::NoRoom {
                doing,
                path,
                need: need.bytes,
                inodes: need.inodes,
                free: free.bytes,
            });
        }
        Ok(())
    }
}

/// The restored copy must have every entry that the backup had, with the same size and time.
fn first_difference(expected: &Manifest, got: &Manifest) -> Option<String> {
    if expected.entries().len() != got.entries().len() {
        return Some(format!("{} entries instead of {}", got.entries().len(), expected.entries().len()));
    }
    // The time of a directory says that somebody has been in it, not that anything is lost: whoever has mended a copy
    // by hand must be able to have it back.
    let differing = expected.entries().iter().zip(got.entries()).find(|(a, b)| {
        let other_time = a.mtime != b.mtime && a.kind != tree::Kind::Directory;
        a.path != b.path || a.kind != b.kind || a.size != b.size || a.mode != b.mode || other_time
    });
    differing.map(|(entry, _)| match &*entry.path {
        [] => "the directory itself".to_owned(),
        path => String::from_utf8_lossy(path).into_owned(),
    })
}
