//! The backend, put together from [`Files`] and supervision.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logic::upgrade::{ImageId, SnapshotId};

use crate::backend::files::Files;
use crate::backend::{Backend, Description, Error, Result, needed};
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::readiness::{self, Life, Prober};
use crate::release;
use crate::supervise::{self, Launcher, Place};

/// A program that was started again so often while it was waited for is not going to be ready.
const MOST_RESTARTS: u32 = 5;

#[derive(Debug, Clone)]
pub struct Slot {
    files: Files,
    place: Place,
    launcher: Launcher,
}

impl Slot {
    pub fn new(layout: Layout, launcher: Launcher) -> Self {
        Self { place: Place::new(layout.root()), files: Files::new(layout), launcher }
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    fn must_be_off(&self) -> Result<()> {
        if supervise::is_on(&self.place)? { Err(Error::On) } else { Ok(()) }
    }

    /// What the supervisor says; a program that ends again and again will not be ready.
    fn life(&self) -> Result<Life> {
        let gone = |last: &str| Error::Ended { last: last.to_owned() };
        let status = supervise::status(&self.place)?.ok_or_else(|| gone("nothing runs"))?;
        let last = status.last_exit.as_deref().unwrap_or("it has not begun");
        if status.restarts > MOST_RESTARTS {
            return Err(gone(last));
        }
        // A supervisor belongs to one power-on: what it started is of the release in force.
        Ok(Life {
            generation: status.pid.map(|pid| (u64::from(status.restarts) << 32) | u64::from(pid)),
            ready: status.ready,
            said: status.said.unwrap_or_else(|| last.to_owned()),
        })
    }
}

impl Backend for Slot {
    fn describe(&self) -> Result<Description> {
        Ok(Description { on: supervise::is_on(&self.place)?, ..self.files.describe()? })
    }

    fn stage_image(&self, image: &ImageId, brought: &Path) -> Result<()> {
        self.files.stage(image, brought)
    }

    fn prepare_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.files.prepare(id)
    }

    fn snapshot(&self, id: &SnapshotId, of: &ImageId) -> Result<()> {
        self.must_be_off()?;
        self.files.snapshot(id, of)
    }

    fn power_off(&self) -> Result<()> {
        Ok(supervise::power_off(&self.place)?)
    }

    fn reconfigure(&self, image: &ImageId) -> Result<()> {
        self.must_be_off()?;
        self.files.set_current(image)
    }

    fn power_on(&self) -> Result<()> {
        // Said here, where it is not yet a supervisor that did not start.
        self.files.current_release()?;
        Ok(supervise::power_on(&self.place, &self.launcher)?)
    }

    fn wait_ready(&self, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()> {
        let (_, release) = self.files.current_release()?;
        let layout = self.files.layout();
        let manifest = release::read(&release)?;
        let configuration = Configuration::load(layout).map_err(|error| Error::Machine {
            what: "its configuration".to_owned(),
            why: error.to_string(),
        })?;
        let words = configuration.words(layout, &release);
        let prober = Prober::new(&manifest.readiness.probe, &release, &words)?;
        let timeout = timeout.unwrap_or_else(|| manifest.readiness.timeout.get());
        readiness::wait(&prober, timeout, manifest.readiness.interval.get(), stop, &mut || self.life())
    }

    fn revert(&self, id: &SnapshotId) -> Result<()> {
        self.must_be_off()?;
        self.files.revert(id)
    }

    fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.files.delete_snapshot(id)
    }

    fn remove_image(&self, image: &ImageId) -> Result<()> {
        needed::by_no_workload(self.files.layout(), image)?;
        self.files.remove_image(image)
    }
}
