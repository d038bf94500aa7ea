//! What an appliance is made of: anything that can be snapshotted, stopped, reconfigured, started and asked whether it
//! is ready. One trait, one suite of tests that every backend passes (`tests/it/contract`).

mod error;
pub mod files;
mod needed;
pub mod ostree;
pub mod slot;
pub mod vm;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logic::upgrade::{ImageId, SnapshotId};

use crate::appliance::BackendKind;
use crate::layout::Layout;
use crate::settings::{OstreeSettings, Settings, VmSettings};
use crate::supervise::Launcher;

pub use error::Error;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    pub on: bool,
    /// The release that runs, or would.
    pub current: Option<ImageId>,
    /// All that are there whole.
    pub images: Vec<ImageId>,
    pub snapshots: Vec<Snapshot>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub id: SnapshotId,
    /// Of which release it is; none: it is not whole.
    pub image: Option<ImageId>,
}

/// Each call may be repeated, also after it was killed half-way: images and snapshots go by ids that are never used
/// twice, and what is already so stays so. A call that returns has its effect on disk.
pub trait Backend {
    fn describe(&self) -> Result<Description>;

    /// Takes the tree at `brought` as the image `image`, replacing an older try; never the image in force.
    fn stage_image(&self, image: &ImageId, brought: &Path) -> Result<()>;

    /// Does as much for [`Backend::snapshot`] as can be done beside a running appliance.
    fn prepare_snapshot(&self, id: &SnapshotId) -> Result<()>;

    /// Captures the state of an appliance that is off. `of` is the release in force.
    fn snapshot(&self, id: &SnapshotId, of: &ImageId) -> Result<()>;

    /// When it returns, nothing of the appliance runs any more.
    fn power_off(&self) -> Result<()>;

    /// Makes an image the one in force. The configuration is in the state already.
    fn reconfigure(&self, image: &ImageId) -> Result<()>;

    fn power_on(&self) -> Result<()>;

    /// Until the release in force says that it is ready. `timeout` instead of the release's own, if given; `stop` is
    /// raised by somebody who does not want to wait any longer.
    fn wait_ready(&self, timeout: Option<Duration>, stop: &AtomicBool) -> Result<()>;

    /// State and release in force as they were at the snapshot. The snapshot stays.
    fn revert(&self, id: &SnapshotId) -> Result<()>;

    fn delete_snapshot(&self, id: &SnapshotId) -> Result<()>;

    fn remove_image(&self, image: &ImageId) -> Result<()>;
}

/// The backend whose files are there.
pub(crate) fn kind_of(layout: &Layout) -> BackendKind {
    match () {
        () if vm::owns(layout) => BackendKind::Vm,
        () if ostree::owns(layout) => BackendKind::Ostree,
        () => BackendKind::Slot,
    }
}

/// The backend of an appliance, as this program runs it.
pub fn open(layout: &Layout, kind: BackendKind, settings: &Settings) -> Result<Box<dyn Backend>> {
    let launcher = Launcher::of_this_program().map_err(|error| Error::Machine {
        what: "this program cannot be found to start supervisors with".to_owned(),
        why: error.to_string(),
    })?;
    let layout = layout.clone();
    Ok(match kind {
        BackendKind::Slot => Box::new(slot::Slot::new(layout, launcher)),
        BackendKind::Vm => {
            let VmSettings { qemu, qemu_img, accelerate } = settings.vm.clone();
            Box::new(vm::Vm::new(layout, vm::Settings { qemu, qemu_img, accelerate }))
        }
        BackendKind::Ostree => {
            let OstreeSettings { tool, reboot } = settings.ostree.clone();
            Box::new(ostree::Ostree::new(layout, ostree::Settings { tool, reboot, ..Default::default() }))
        }
    })
}
