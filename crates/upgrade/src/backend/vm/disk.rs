//! The machine's own disk, and the snapshots inside it.
//!
//! `qemu-img` keeps the image readable at any time: killed half-way it leaves clusters that nothing leads to, never a
//! mixture. The mark `changing` says that there may be such, and whoever comes next gives them back first.

use std::fs;
use std::path::PathBuf;

use ::disk::Operation;
use ::disk::durable::{sync_dir, write_durably};
use logic::upgrade::SnapshotId;

use super::base;
use super::qemu_img::QemuImg;
use crate::backend::Result;
use crate::layout::Layout;
use crate::release::VmDisk;

const FILE: &str = "disk.qcow2";
const NEW: &str = "disk.new";
const CHANGING: &str = "changing";
const MIB: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub struct Disk {
    directory: PathBuf,
    qemu_img: QemuImg,
}

impl Disk {
    pub fn new(layout: &Layout, qemu_img: QemuImg) -> Self {
        Self { directory: layout.root().join("disk"), qemu_img }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    pub fn exists(&self) -> bool {
        self.path().exists()
    }

    /// Made once; one that is there is left as it is, whatever a release would like.
    pub fn make(&self, what: &VmDisk) -> Result<()> {
        if self.exists() {
            return Ok(());
        }
        let base = what.base.as_ref().map(|path| base::examine(&self.qemu_img, path.as_ref())).transpose()?;
        let failed = |operation, path: &PathBuf, error| ::disk::Error::io(operation, path, error);
        fs::create_dir_all(&self.directory)
            .map_err(|error| failed(Operation::Create, &self.directory, error))?;
        let (path, new) = (self.path(), self.directory.join(NEW));
        // Not smaller than what it stands on: the rest of that would be cut off.
        let bytes = what.size_mib.saturating_mul(MIB).max(base.as_ref().map_or(0, |base| base.bytes));
        let base = base.as_ref().map(|base| (base.path.as_path(), base.format));
        self.qemu_img.create(&new, bytes, base)?;
        fs::File::open(&new)
            .and_then(|file| file.sync_all())
            .map_err(|error| failed(Operation::Sync, &new, error))?;
        fs::rename(&new, &path).map_err(|error| failed(Operation::Rename, &path, error))?;
        sync_dir(&self.directory)?;
        Ok(sync_dir(self.directory.parent().unwrap_or(&self.directory))?)
    }

    /// As if it had never been made.
    pub fn remove(&self) -> Result<()> {
        let path = self.path();
        match fs::remove_file(&path) {
            Ok(()) => Ok(sync_dir(&self.directory)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(::disk::Error::io(Operation::Remove, &path, error).into()),
        }
    }

    /// Names of the snapshots in it; also while the machine runs.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        if !self.exists() {
            return Ok(vec![]);
        }
        let info = self.qemu_img.info(&self.path(), "qcow2")?;
        Ok(info.snapshots.into_iter().map(|snapshot| snapshot.name).collect())
    }

    pub fn holds(&self, id: &SnapshotId) -> Result<bool> {
        Ok(self.snapshots()?.iter().any(|name| name == id.as_str()))
    }

    /// Captures what the disk holds now. One of that name is of an earlier try, and may be of something else.
    pub fn take(&self, id: &SnapshotId) -> Result<()> {
        self.change(|| {
            self.drop_all(id)?;
            self.qemu_img.snapshot(&self.path(), "-c", id.as_str())
        })
    }

    /// Makes the disk what it was at the snapshot, which stays.
    pub fn apply(&self, id: &SnapshotId) -> Result<()> {
        self.change(|| self.qemu_img.snapshot(&self.path(), "-a", id.as_str()))
    }

    pub fn delete(&self, id: &SnapshotId) -> Result<()> {
        if !self.holds(id)? && !self.directory.join(CHANGING).exists() {
            return Ok(());
        }
        self.change(|| self.drop_all(id))
    }

    /// Names need not differ for QEMU.
    fn drop_all(&self, id: &SnapshotId) -> Result<()> {
        let count = self.snapshots()?.iter().filter(|name| *name == id.as_str()).count();
        (0..count).try_for_each(|_| self.qemu_img.snapshot(&self.path(), "-d", id.as_str()))
    }

    fn change(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let mark = self.directory.join(CHANGING);
        if mark.exists() {
            self.qemu_img.repair_leaks(&self.path())?;
        }
        write_durably(&mark, b"")?;
        work()?;
        fs::remove_file(&mark).map_err(|error| ::disk::Error::io(Operation::Remove, &mark, error))?;
        Ok(sync_dir(&self.directory)?)
    }
}
