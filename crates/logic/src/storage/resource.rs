//! A resource of the Kubernetes API: a name in a group. Objects are stored by resource, whatever versions are served.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Empty for the core group.
    #[serde(default)]
    pub group: String,
    pub resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a resource: write it as kubectl does, `cronjobs.batch`, or `secrets` for the core group"
)]
pub struct BadResource {
    pub text: String,
}

impl Resource {
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// `cronjobs.batch`, or `secrets` for the core group: also the name of its StorageState.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

impl FromStr for Resource {
    type Err = BadResource;

    fn from_str(text: &str) -> Result<Self, BadResource> {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        let named = |part: &str| {
            part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.')
        };
        let whole = !resource.is_empty() && named(resource) && named(group) && !text.ends_with('.');
        whole.then(|| Self::new(group, resource)).ok_or_else(|| BadResource { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_written_as_kubectl_writes_it() {
        for (text, group, resource) in [
            ("secrets", "", "secrets"),
            ("cronjobs.batch", "batch", "cronjobs"),
            ("ingresses.networking.k8s.io", "networking.k8s.io", "ingresses"),
        ] {
            assert_eq!(text.parse(), Ok(Resource::new(group, resource)));
            assert_eq!(Resource::new(group, resource).to_string(), text);
        }
        for text in ["", ".batch", "cronjobs.", "CronJobs.batch", "cron jobs", "a/b"] {
            assert!(text.parse::<Resource>().is_err(), "{text}");
        }
    }
}
