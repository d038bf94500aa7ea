//! The `[agent.cluster]` table of the configuration.

use logic::period::Period;
use semver::Version;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Where the agent runs.
    pub namespace: String,
    /// The agent's own Deployment there.
    pub deployment: String,
    /// The pod that this is; none where the agent runs outside of the cluster, and can't be replaced by it.
    pub pod: Option<String>,
    /// What was installed, where the Deployment does not say so.
    pub version: Option<Version>,
    /// How long an agent that leads may be silent before another takes over.
    pub lease: Period,
    /// For one object to be done.
    pub patience: Period,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "holdfast-system".to_owned(),
            deployment: "holdfast-agent".to_owned(),
            pod: None,
            version: None,
            lease: Period::seconds(15),
            patience: Period::seconds(20 * 60),
        }
    }
}
