//! Trees that change their places: by one rename where the file system can, under the journal where it can't.

use std::fs;
use std::path::{Path, PathBuf};

use disk::durable::{exchange_durably, rename_durably, sync_dir};
use disk::tree;
use logic::guard::{Operation, Place, Seq, Step};

use super::{Executor, MOVING, create_private_dir};
use crate::device::{JournalEntry, TreeMark, exists};
use crate::error::{Doing, Result, While};

impl Executor<'_> {
    /// One rename; across file systems, a complete copy under the new name, then the removal of the old.
    pub(super) fn relocate(&mut self, from: &Place, to: &Place) -> Result<()> {
        let doing = if *from == Place::Data { Doing::MoveAside } else { Doing::Records };
        let layout = &self.device.layout;
        let (source, target) = (self.source_of(from), layout.path(to));
        if let Some(parent) = target.parent() {
            create_private_dir(parent)?;
        }
        let is_mounted_data = *from == Place::Data && layout.data_is_mount;
        if !exists(&target) && exists(&source) {
            if !is_mounted_data {
                match rename_durably(&source, &target) {
                    Err(error) if error.is_cross_device() => {}
                    result => return result.during(doing),
                }
            }
            let staged = layout.staging().join(format!("{MOVING}{}", file_name(&target)));
            tree::remove(&staged).during(doing)?;
            self.check_room(doing, &source, &layout.staging())?;
            tree::copy(&source, &staged, &self.copy_options(), &self.watch()).during(doing)?;
            rename_durably(&staged, &target).during(doing)?;
        }
        match is_mounted_data {
            true => self.empty_data(),
            // A rename leaves no source; a copy does, until here.
            false if *from == Place::Data || matches!(from, Place::Incoming(_)) => {
                tree::remove(&source).during(doing)?;
                // Before the journal forgets about it, which may be on another disk.
                sync_dir(source.parent().unwrap_or(Path::new("/"))).during(doing)
            }
            false => Ok(()),
        }
    }

    /// What an interrupted move across file systems has left.
    pub(super) fn sweep_moves(&self) -> Result<()> {
        let staging = self.device.layout.staging();
        let Ok(entries) = fs::read_dir(&staging) else { return Ok(()) };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(MOVING))
        {
            tree::remove(&entry.path()).during(Doing::Records)?;
        }
        Ok(())
    }

    /// Where the tree of a place really is: what an exchange of contents took out of the data has a name of its own.
    pub(super) fn source_of(&self, place: &Place) -> PathBuf {
        let layout = &self.device.layout;
        match place {
            Place::Incoming(number) if layout.data_is_mount => layout.outgoing(*number),
            place => layout.path(place),
        }
    }

    pub(super) fn empty_data(&self) -> Result<()> {
        let data = &self.device.layout.data;
        let listed = fs::read_dir(data).map_err(|error| disk::Error::io(disk::Operation::List, data, error));
        for entry in listed.during(Doing::MoveAside)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(disk::RESERVED_PREFIX) {
                tree::remove(&entry.path()).during(Doing::MoveAside)?;
            }
        }
        sync_dir(data).during(Doing::MoveAside)
    }

    pub(super) fn exchange(&mut self, number: Seq) -> Result<()> {
        let layout = &self.device.layout;
        let incoming = layout.path(&Place::Incoming(number));
        if layout.data_is_mount {
            self.journal.append(&JournalEntry::Swap).during(Doing::Restore)?;
            return self.swap_contents(number);
        }
        let mark = TreeMark::of(&incoming).during(Doing::Restore)?;
        self.journal.append(&JournalEntry::Exchange(mark)).during(Doing::Restore)?;
        match exists(&layout.data) {
            true => exchange_durably(&layout.data, &incoming).during(Doing::Restore)?,
            false => rename_durably(&incoming, &layout.data).during(Doing::Restore)?,
        }
        // An empty directory was in the data's place: nothing that anybody misses.
        if fs::read_dir(&incoming).is_ok_and(|mut entries| entries.next().is_none()) {
            tree::remove(&incoming).during(Doing::Restore)?;
        }
        Ok(())
    }

    /// An exchange of contents is many renames. Once it was begun it counts as done, so the rest is done first.
    pub(super) fn finish_swap(&self, step: &Step) -> Result<()> {
        match step {
            Step::Recover { operation: Operation::Restore { incoming, .. }, finish: true }
                if self.device.layout.data_is_mount =>
            {
                self.swap_contents(*incoming)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn swap_contents(&self, number: Seq) -> Result<()> {
        let layout = &self.device.layout;
        let (incoming, outgoing) = (layout.path(&Place::Incoming(number)), layout.outgoing(number));
        // Without the one, all has moved already, and the other may be gone again.
        if exists(&incoming) {
            create_private_dir(&outgoing)?;
        }
        tree::swap_contents(&layout.data, &incoming, &outgoing).during(Doing::Restore)?;
        // All that was in it has moved; what is left is the vessel, with the mark that says so. The two must go in one
        // step: without the mark, what has come in would be taken for what must go out.
        let spent = layout.spent(number);
        if exists(&incoming) {
            rename_durably(&incoming, &spent).during(Doing::Restore)?;
        }
        tree::remove(&spent).during(Doing::Restore)?;
        if fs::read_dir(&outgoing).is_ok_and(|mut entries| entries.next().is_none()) {
            tree::remove(&outgoing).during(Doing::Restore)?;
        }
        sync_dir(&layout.data).during(Doing::Restore)
    }

    pub(super) fn remove(&mut self, place: &Place) -> Result<()> {
        let path = self.device.layout.path(place);
        tree::remove_with(&path, self.device.threads, &self.watch()).during(Doing::Discard)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
