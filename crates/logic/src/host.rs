//! What a host says about the operating system deployments that it holds.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The full name of a deployment, serial included (`rhel-8497faf….0`). Compared whole, never by prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeploymentId(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} can't name a deployment: {why}")]
pub struct BadDeploymentId {
    pub text: String,
    pub why: &'static str,
}

impl DeploymentId {
    /// The longest name that still leaves room for prefixes and numbers in a 255-byte file name.
    pub const MAX_LEN: usize = 200;

    /// What guard keeps beside the copies, under names that no deployment can therefore have.
    const RESERVED: [&str; 4] = ["health.json", "version.json", "actions.log", "next-boot.json"];
    const RESERVED_PREFIXES: [&str; 3] = ["unhealthy__", "last_healthy__", "replaced__"];

    /// A deployment's name becomes the name of a directory, so it must be able to.
    pub fn new(text: impl Into<String>) -> Result<Self, BadDeploymentId> {
        let text = text.into();
        let why = if text.is_empty() {
            "it is empty"
        } else if text.len() > Self::MAX_LEN {
            "it is longer than 200 bytes"
        } else if text.starts_with('.') {
            "it begins with a dot"
        } else if text.chars().any(|c| c == '/' || c.is_control()) {
            "it has a slash or a control character"
        } else if Self::RESERVED.iter().any(|name| text.starts_with(name))
            || Self::RESERVED_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
        {
            "that name is reserved"
        } else {
            return Ok(Self(text.into()));
        };
        Err(BadDeploymentId { text, why })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DeploymentId {
    type Error = BadDeploymentId;
    fn try_from(text: String) -> Result<Self, BadDeploymentId> {
        Self::new(text)
    }
}

impl From<DeploymentId> for String {
    fn from(id: DeploymentId) -> Self {
        id.0.to_string()
    }
}

/// What the host reports. `deployments` is in boot order, the newest first; it is empty when the host
/// lists none, which is never taken for "there are none".
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    pub booted: DeploymentId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<DeploymentId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<DeploymentId>,
    #[serde(default)]
    pub pinned: Vec<DeploymentId>,
    #[serde(default)]
    pub deployments: Vec<DeploymentId>,
}
