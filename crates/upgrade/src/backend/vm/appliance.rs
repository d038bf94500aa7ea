//! A virtual machine as a backend.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::disk::Operation;
use ::disk::durable::write_durably;
use logic::upgrade::{ImageId, SnapshotId};
use serde_json::json;

use super::command::{self, DISK_NODE, Settings};
use super::definition::Definition;
use super::disk::Disk;
use super::error::Error;
use super::machine::Machine;
use super::qemu_img::QemuImg;
use super::ready::{self, Asked};
use super::{qmp, serial};
use crate::backend::files::Files;
use crate::backend::{self, Backend, Description, Result, needed};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::release::{self, VmPayload};

/// In a snapshot that was taken while there was no disk.
const NO_DISK: &str = "no-disk";
/// Where no definition says otherwise.
const STOP: Duration = Duration::from_secs(10);
/// A running machine stands still while a snapshot is removed from its disk.
const REMOVAL: Duration = Duration::from_secs(600);

#[derive(Debug, Clone)]
pub struct Vm {
    layout: Layout,
    files: Files,
    disk: Disk,
    machine: Machine,
    settings: Settings,
}

impl Vm {
    pub fn new(layout: Layout, settings: Settings) -> Self {
        Self {
            files: Files::new(layout.clone()),
            disk: Disk::new(&layout, QemuImg::new(settings.qemu_img.clone())),
            machine: Machine::new(layout.run()),
            layout,
            settings,
        }
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Of the release in force, as it is in the state.
    fn definition(&self) -> Result<Definition> {
        let current = self.files.current()?.ok_or(backend::Error::NoCurrent)?;
        match Definition::load(&self.layout)? {
            Some(definition) if definition.image == current => Ok(definition),
            Some(definition) => Err(Error::OtherDefinition { definition: definition.image, current }.into()),
            None => Err(backend::Error::NoCurrent),
        }
    }

    fn must_be_off(&self) -> Result<()> {
        if self.machine.is_on()? { Err(backend::Error::On) } else { Ok(()) }
    }

    /// The release that a whole snapshot is of.
    fn image_of(&self, id: &SnapshotId) -> Result<Option<ImageId>> {
        let found = self.files.snapshots()?.into_iter().find(|snapshot| snapshot.id == *id);
        Ok(found.and_then(|snapshot| snapshot.image))
    }

    fn took_no_disk(&self, id: &SnapshotId) -> bool {
        self.layout.snapshot(id).join(NO_DISK).exists()
    }

    /// From a disk that is in use only QEMU itself removes anything.
    fn delete_from_running(&self, id: &SnapshotId) -> Result<(), qmp::Error> {
        let arguments = json!({"device": DISK_NODE, "name": id.as_str()});
        let mut qmp = self.machine.control(REMOVAL)?;
        qmp.execute("blockdev-snapshot-delete-internal-sync", arguments, REMOVAL).map(drop)
    }
}

impl Backend for Vm {
    fn describe(&self) -> Result<Description> {
        let mut description = Description { on: self.machine.is_on()?, ..self.files.describe()? };
        if description.snapshots.iter().any(|snapshot| snapshot.image.is_some()) {
            let names = self.disk.snapshots()?;
            for snapshot in &mut description.snapshots {
                // Half removed, from the disk first.
                let whole =
                    self.took_no_disk(&snapshot.id) || names.iter().any(|name| name == snapshot.id.as_str());
                snapshot.image.take_if(|_| !whole);
            }
        }
        Ok(description)
    }

    fn stage_image(&self, image: &ImageId, brought: &Path) -> Result<()> {
        if brought.exists() {
            payload(brought)?;
        }
        self.files.stage(image, brought)
    }

    fn prepare_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.files.prepare(id)
    }

    /// The disk first: `snapshot.json`, which says that all of it is there, is the last thing that is written.
    fn snapshot(&self, id: &SnapshotId, of: &ImageId) -> Result<()> {
        if self.image_of(id)?.is_some() {
            return Ok(());
        }
        self.must_be_off()?;
        let (directory, no_disk) = (self.layout.snapshot(id), self.layout.snapshot(id).join(NO_DISK));
        fs::create_dir_all(&directory)
            .map_err(|error| ::disk::Error::io(Operation::Create, &directory, error))?;
        if self.disk.exists() {
            // Of an earlier try, from before there was one.
            ::disk::tree::remove(&no_disk)?;
            self.disk.take(id)?;
        } else {
            write_durably(&no_disk, b"")?;
        }
        self.files.snapshot(id, of)
    }

    fn power_off(&self) -> Result<()> {
        // Whatever is wrong with its definition, it can be switched off.
        let definition = Definition::load(&self.layout).ok().flatten();
        if !self.machine.is_on()? {
            return Ok(());
        }
        self.machine.stop(definition.map_or(STOP, |definition| definition.vm.stop_timeout.get()))?;
        Ok(serial::trim(&self.layout.run())?)
    }

    fn reconfigure(&self, image: &ImageId) -> Result<()> {
        let release = self.layout.release(image);
        if !release.is_dir() {
            return Err(backend::Error::NoImage { image: image.clone() });
        }
        let vm = payload(&release)?;
        if let Some(disk) = &vm.disk {
            self.disk.make(disk)?;
        }
        Definition { image: image.clone(), vm }.save(&self.layout)?;
        self.files.set_current(image)
    }

    fn power_on(&self) -> Result<()> {
        let definition = self.definition()?;
        let (_, release) = self.files.current_release()?;
        let configuration = Configuration::load(&self.layout).map_err(Box::new)?;
        let words = configuration.words(&self.layout, &release);
        let disk = definition.vm.disk.is_some().then(|| self.disk.path());
        let arguments =
            command::arguments(&self.settings, &definition.vm, &release, disk.as_deref(), &words)?;
        let plain = configuration.plain().to_string();
        self.machine.start(&self.settings.qemu, &arguments, plain.as_bytes())
    }

    fn wait_ready(&self, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()> {
        let (_, release) = self.files.current_release()?;
        let configuration = Configuration::load(&self.layout).map_err(Box::new)?;
        let asked = Asked {
            machine: &self.machine,
            run: self.layout.run(),
            readiness: release::read(&release)?.readiness,
            words: configuration.words(&self.layout, &release),
            release: &release,
        };
        ready::wait(&asked, timeout, stop)
    }

    fn revert(&self, id: &SnapshotId) -> Result<()> {
        // All that could be in the way is looked at before anything is changed.
        let image = self.image_of(id)?.ok_or_else(|| backend::Error::NoSnapshot { id: id.clone() })?;
        if !self.layout.release(&image).is_dir() {
            return Err(backend::Error::NoImage { image });
        }
        self.must_be_off()?;
        if self.took_no_disk(id) {
            self.disk.remove()?;
        } else if self.disk.holds(id)? {
            self.disk.apply(id)?;
        } else {
            return Err(backend::Error::NoSnapshot { id: id.clone() });
        }
        self.files.revert(id)
    }

    fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        // The disk first: were the record gone before, nobody would know any more that there is something in the disk.
        if self.disk.holds(id)? && self.machine.is_on()? {
            match self.delete_from_running(id) {
                Ok(()) => {}
                Err(_) if !self.machine.is_on()? => self.disk.delete(id)?,
                Err(error) => return Err(Error::Control(error).into()),
            }
        } else if self.disk.exists() && !self.machine.is_on()? {
            self.disk.delete(id)?;
        }
        self.files.delete_snapshot(id)
    }

    fn remove_image(&self, image: &ImageId) -> Result<()> {
        needed::by_no_workload(&self.layout, image)?;
        self.files.remove_image(image)
    }
}

fn payload(release: &Path) -> Result<VmPayload> {
    let manifest = release::read(release)?;
    Ok(manifest.vm.ok_or(release::Error::OtherBackend { backend: "vm" })?)
}
