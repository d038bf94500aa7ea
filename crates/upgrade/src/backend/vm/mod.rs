//! An appliance that is a virtual machine: QEMU, driven over QMP.
//!
//! ```text
//! disk/disk.qcow2         the machine's own disk; snapshots are inside it, named by their ids
//! disk/changing           there while a snapshot is made, applied or removed: whoever finds it looks after the disk
//! state/definition.json   what the machine consists of: captured by snapshots, as configuration and data are
//! run/machine.lock        held by the machine's process from before it exists to its end: on is "the lock is held"
//! run/machine.pid         written and locked by QEMU: the kernel says whose lock it is, so no number is trusted
//! run/qmp.sock            where it is controlled
//! run/serial.log          what it says on its serial line since it was started; .1: before that
//! run/qemu.log            what QEMU itself says
//! ```
//!
//! What the machine is to know of its configuration it finds in fw_cfg, under `opt/holdfast/config`; it gets there
//! through memory, never through a file.

mod appliance;
mod base;
mod command;
mod definition;
mod disk;
mod error;
mod machine;
mod qemu_img;
pub mod qmp;
mod ready;
mod serial;

pub use appliance::Vm;
pub use command::Settings;
pub use definition::Definition;
pub(crate) use definition::owns;
pub use error::Error;
