//! Who takes part in the walk: the deployments, their versions, and the settings that all of them share.

use logic::guard::{BootId, Keep, Policy, StagedOverUnhealthy};
use logic::host::{DeploymentId, Host};
use logic::version::Version;

/// Deployments that boot.
pub const DEPLOYMENTS: usize = 3;

/// A deployment and the version of its workload have the same index; the last pair is the data that was there
/// before guard was. Together they have every relation that the version check knows: 4.13 → 4.14 → 4.15 are one
/// step each, d2 and d3 differ in Z only, d1 is older than d2, and d2 is too far ahead of what was there before.
const NAMES: [(&str, &str); DEPLOYMENTS + 1] =
    [("d1", "4.14.0"), ("d2", "4.15.0"), ("d3", "4.15.1"), ("4.13", "4.13")];

/// What the host says of its deployments. It may say something else each time it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    All,
    /// The booted one and this one, by index.
    BootedAnd(usize),
    /// The host's command failed, or printed nothing that could be understood.
    Unknown,
}

pub struct Cast {
    pub deployments: Vec<DeploymentId>,
    pub versions: Vec<Version>,
    /// The kernel's name for the boot that is under way, and for all that are over.
    pub now: BootId,
    pub then: BootId,
    pub policy: Policy,
}

impl Cast {
    pub fn new() -> Self {
        let version = |text: &str| Version::parse(text).expect("a version");
        Self {
            deployments: NAMES.iter().map(|(name, _)| DeploymentId::new(*name).expect("a name")).collect(),
            versions: NAMES.iter().map(|(_, text)| version(text)).collect(),
            now: BootId::new("now"),
            then: BootId::new("then"),
            policy: Policy {
                max_skew: 1,
                blocked: vec![],
                assumed: version("4.13"),
                staged_over_unhealthy: StagedOverUnhealthy::StartClean,
                keep: Keep::Deployments,
                min_healthy: 2,
                aside_max: 2,
                aside_max_bytes: u64::MAX,
            },
        }
    }

    pub fn index_of(&self, deployment: &DeploymentId) -> usize {
        self.deployments.iter().position(|known| known == deployment).expect("only the cast appears")
    }

    pub fn version_index(&self, version: &Version) -> usize {
        self.versions.iter().position(|known| known == version).expect("only the cast's versions appear")
    }

    pub fn host(&self, booted: usize, listing: Listing) -> Host {
        let listed: Vec<usize> = match listing {
            Listing::All => (0..DEPLOYMENTS).collect(),
            Listing::BootedAnd(other) => vec![booted, other],
            Listing::Unknown => vec![],
        };
        Host {
            booted: self.deployments[booted].clone(),
            rollback: None,
            staged: None,
            pinned: vec![],
            deployments: listed.into_iter().map(|at| self.deployments[at].clone()).collect(),
        }
    }
}
