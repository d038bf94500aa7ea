//! `[upgrade]` of the configuration.

use std::path::PathBuf;

use logic::period::Period;
use serde::{Deserialize, Serialize};

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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: PathBuf::from("/var/lib/holdfast/appliances"),
            timeout: None,
            credentials: None,
            ca_file: None,
            proxy: None,
        }
    }
}
