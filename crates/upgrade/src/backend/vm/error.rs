//! What can go wrong with a virtual machine.

use std::io;
use std::path::PathBuf;

use logic::upgrade::ImageId;

use super::qmp;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the machine cannot be controlled")]
    Control(#[from] qmp::Error),
    #[error("QEMU cannot be started")]
    Spawn(#[source] io::Error),
    #[error("the machine did not start: {said}")]
    Start { said: String },
    #[error("the machine's process does not end")]
    DoesNotEnd,
    #[error("the machine's definition is of {definition}, and in force is {current}")]
    OtherDefinition { definition: ImageId, current: ImageId },
    #[error("{} is not a definition of a machine: {why}", path.display())]
    Definition { path: PathBuf, why: String },
    #[error("{path:?} leads out of the release")]
    Outside { path: String },
    #[error("{text:?} is not a port")]
    Port { text: String },
    #[error("{} cannot be stood on: {why}", path.display())]
    Base { path: PathBuf, why: String },
    #[error("the machine's disk is damaged: {said}")]
    Damaged { said: String },
    #[error("qemu-img did not say what was expected: {why}")]
    Unexpected { why: String },
}

impl Error {
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Control(_) | Self::Start { .. } => {
                "run/qemu.log and run/serial.log of the appliance say more"
            }
            Self::Spawn(_) => "install qemu-system-x86",
            Self::DoesNotEnd => "see what the process named in run/machine.pid waits for",
            Self::OtherDefinition { .. } => {
                "an upgrade was interrupted: resume it, or start any command on the appliance"
            }
            Self::Definition { .. } => "restore it from a snapshot of the appliance",
            Self::Outside { .. } => "name files of the release, by paths relative to it",
            Self::Port { .. } => {
                "forward to a number from 1 to 65535, or to a key of the configuration that holds one"
            }
            Self::Base { .. } => "use a raw image, or a qcow2 whose backing files lie beside it",
            Self::Damaged { .. } => "look at it with `qemu-img check`, and restore it from a backup",
            Self::Unexpected { .. } => "see that qemu-img is the one of qemu-utils",
        };
        hint.to_owned()
    }
}
