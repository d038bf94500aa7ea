//! The host itself as a backend.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use disk::durable::read_limited;
use logic::host::DeploymentId;
use logic::upgrade::{ImageId, SnapshotId};

use super::error::Error;
use super::records::{self, Reboot, Records};
use super::tool::{Settings, Tools};
use crate::backend::files::Files;
use crate::backend::{self, Backend, Description, Result, needed};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::readiness::{self, Life, Prober};
use crate::release::{self, OstreePayload};

const BOOT_ID_LIMIT: u64 = 4096;

#[derive(Debug, Clone)]
pub struct Ostree {
    layout: Layout,
    files: Files,
    tools: Tools,
}

impl Ostree {
    pub fn new(layout: Layout, settings: Settings) -> Self {
        Self { files: Files::new(layout.clone()), tools: Tools::new(settings), layout }
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The deployment that should run.
    fn target(&self, records: &Records) -> Result<DeploymentId> {
        let image = self.files.current()?.ok_or(backend::Error::NoCurrent)?;
        Ok(records.deployment(&image).cloned().ok_or(Error::NotDeployed { image })?)
    }

    fn image_of(&self, id: &SnapshotId) -> Result<Option<ImageId>> {
        let found = self.files.snapshots()?.into_iter().find(|snapshot| snapshot.id == *id);
        Ok(found.and_then(|snapshot| snapshot.image))
    }

    fn boot_id(&self) -> Result<String> {
        let bytes = read_limited(&self.tools.settings().boot_id, BOOT_ID_LIMIT)?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// From now on an earlier reboot says nothing about what is in force.
    fn set_in_force(&self, image: &ImageId, deployment: &DeploymentId) -> Result<()> {
        let mut records = Records::load(&self.layout)?;
        let before = records.deployment(image).filter(|before| *before != deployment).cloned();
        records.set(image, deployment);
        records.reboot = None;
        records.save(&self.layout)?;
        // One deployment of an image is enough; what a snapshot needs is pinned, and stays.
        before.map_or(Ok(()), |before| self.tools.let_go(&before))
    }
}

impl Backend for Ostree {
    /// On is: what should run does. Before the first boot of a release nothing of the appliance runs, and the one that
    /// would is the current one.
    fn describe(&self) -> Result<Description> {
        let files = self.files.describe()?;
        let booted = self.tools.look()?.host.booted;
        let records = Records::load(&self.layout)?;
        let on = self.target(&records).is_ok_and(|target| target == booted);
        let current = records.image(&booted, &files.images).or(files.current);
        Ok(Description { on, current, images: files.images, snapshots: files.snapshots })
    }

    fn stage_image(&self, image: &ImageId, brought: &Path) -> Result<()> {
        let from = if brought.exists() { brought.to_owned() } else { self.layout.release(image) };
        if self.files.current()?.as_ref() == Some(image) {
            return Err(backend::Error::InForce { image: image.clone() });
        }
        let payload = payload(&from, image)?;
        self.tools.bring(&payload.reference)?;
        self.files.stage(image, brought)
    }

    fn prepare_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.files.prepare(id)
    }

    fn snapshot(&self, id: &SnapshotId, of: &ImageId) -> Result<()> {
        if self.image_of(id)?.is_some() {
            return Ok(());
        }
        let booted = self.tools.look()?.host.booted;
        let expected = Records::load(&self.layout)?.deployment(of).cloned();
        match expected {
            Some(expected) if expected != booted => return Err(Error::OtherRuns { booted, expected }.into()),
            Some(_) => {}
            None => return Err(Error::NotDeployed { image: of.clone() }.into()),
        }
        records::capture(&self.layout, id, &booted)?;
        self.tools.pin(&booted)?;
        self.files.snapshot(id, of)
    }

    /// The host goes on as it is until it boots what comes next.
    fn power_off(&self) -> Result<()> {
        Ok(())
    }

    fn reconfigure(&self, image: &ImageId) -> Result<()> {
        let release = self.layout.release(image);
        if !release.is_dir() {
            return Err(backend::Error::NoImage { image: image.clone() });
        }
        let payload = payload(&release, image)?;
        let known = Records::load(&self.layout)?.deployment(image).cloned();
        let deployment = self.tools.deploy(&payload.reference, known.as_ref())?;
        self.set_in_force(image, &deployment)?;
        self.files.set_current(image)
    }

    /// Reboots, where another deployment runs than the one that should; then this process has nothing more to do.
    fn power_on(&self) -> Result<()> {
        let mut records = Records::load(&self.layout)?;
        let target = self.target(&records)?;
        let host = self.tools.look()?.host;
        if host.booted == target {
            if records.reboot.take().is_some() {
                records.save(&self.layout)?;
            }
            return Ok(());
        }
        let boot_id = self.boot_id()?;
        let happened =
            records.reboot.as_ref().is_some_and(|reboot| reboot.to == target && reboot.boot_id != boot_id);
        // Once is enough: a deployment that does not come up is not tried for ever.
        if happened || host.deployments.first() != Some(&target) {
            return Err(Error::TurnedBack { target, booted: host.booted }.into());
        }
        records.reboot = Some(Reboot { to: target.clone(), boot_id });
        records.save(&self.layout)?;
        self.tools.reboot()?;
        match self.tools.look()?.host.booted == target {
            true => Ok(()),
            false => Err(backend::Error::Rebooting),
        }
    }

    fn wait_ready(&self, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()> {
        let records = Records::load(&self.layout)?;
        let target = self.target(&records)?;
        let booted = self.tools.look()?.host.booted;
        if booted != target {
            return Err(Error::OtherRuns { booted, expected: target }.into());
        }
        let (_, release) = self.files.current_release()?;
        let readiness = release::read(&release)?.readiness;
        let words = Configuration::load(&self.layout).map_err(Box::new)?.words(&self.layout, &release);
        let prober = Prober::new(&readiness.probe, &release, &words)?;
        let timeout = timeout.unwrap_or(readiness.timeout.get());
        // As long as this process lives, so does the boot that it asks about.
        let mut life =
            || Ok(Life { generation: Some(0), ready: false, said: "a host has no such sign".to_owned() });
        readiness::wait(&prober, timeout, readiness.interval.get(), stop, &mut life)
    }

    fn revert(&self, id: &SnapshotId) -> Result<()> {
        let none = || backend::Error::NoSnapshot { id: id.clone() };
        let image = self.image_of(id)?.ok_or_else(none)?;
        if !self.layout.release(&image).is_dir() {
            return Err(backend::Error::NoImage { image });
        }
        let captured = records::captured(&self.layout, id)?.ok_or_else(none)?;
        let reference = payload(&self.layout.release(&image), &image)?.reference;
        let first = self.tools.put_first(&captured, &reference)?;
        self.set_in_force(&image, &first)?;
        self.files.revert(id)
    }

    fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        if let Some(deployment) = records::captured(&self.layout, id)? {
            let others = self.files.snapshots()?.into_iter().filter(|other| other.id != *id);
            let mut needed = false;
            for other in others {
                needed |= records::captured(&self.layout, &other.id)?.as_ref() == Some(&deployment);
            }
            if !needed {
                self.tools.unpin(&deployment)?;
                // Another of the same commit may have taken its place.
                let images = Records::load(&self.layout)?.images;
                if !images.values().any(|one| *one == deployment) {
                    self.tools.let_go(&deployment)?;
                }
            }
        }
        self.files.delete_snapshot(id)
    }

    fn remove_image(&self, image: &ImageId) -> Result<()> {
        needed::by_no_workload(&self.layout, image)?;
        let mut records = Records::load(&self.layout)?;
        if let Some(deployment) = records.deployment(image).cloned() {
            let in_force = self.files.current()?.as_ref() == Some(image);
            if in_force || self.tools.look()?.host.booted == deployment {
                return Err(backend::Error::InForce { image: image.clone() });
            }
            self.tools.let_go(&deployment)?;
            records.images.remove(image.as_str());
            records.save(&self.layout)?;
        }
        self.files.remove_image(image)
    }
}

fn payload(release: &Path, image: &ImageId) -> Result<OstreePayload> {
    if !release.is_dir() {
        return Err(backend::Error::NoImage { image: image.clone() });
    }
    Ok(release::read(release)?.ostree.ok_or(release::Error::OtherBackend { backend: "ostree" })?)
}
