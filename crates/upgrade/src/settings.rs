//! `[upgrade]` of the configuration.

use std::path::PathBuf;

use logic::period::Period;
use serde::{Deserialize, Serialize};

use crate::backend::{ostree, vm};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Holds all appliances of this machine.
    pub directory: PathBuf,
    /// To become ready in, instead of what a release says.
    pub timeout: Option<Period>,
    /// A docker `config.json` for registries; the user's own where it is not given.
    pub credentials: Option<PathBuf>,
    /// PEM, trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Instead of what the environment says.
    pub proxy: Option<String>,
    pub vm: VmSettings,
    pub ostree: OstreeSettings,
}

/// What virtual machines are run with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct VmSettings {
    pub qemu: PathBuf,
    pub qemu_img: PathBuf,
    /// The host's processor runs the machine's code where it can.
    pub accelerate: bool,
}

/// How this host is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OstreeSettings {
    /// The first that answers, unless given.
    pub tool: Option<ostree::Tool>,
    /// What brings the machine down and up again.
    pub reboot: Vec<String>,
}

impl Default for VmSettings {
    fn default() -> Self {
        let vm::Settings { qemu, qemu_img, accelerate } = vm::Settings::default();
        Self { qemu, qemu_img, accelerate }
    }
}

impl Default for OstreeSettings {
    fn default() -> Self {
        let ostree::Settings { tool, reboot, .. } = ostree::Settings::default();
        Self { tool, reboot }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("/var/lib/holdfast/appliances"),
            timeout: None,
            credentials: None,
            ca_file: None,
            proxy: None,
            vm: VmSettings::default(),
            ostree: OstreeSettings::default(),
        }
    }
}
