//! What managers say to their site over HTTP, and what it answers.

use logic::images::{DiskId, NodeName};
use serde::{Deserialize, Serialize};

/// `POST /v1/join`: with a token, or with the certificate that is to be renewed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Join {
    pub disk: DiskId,
    pub node: NodeName,
    /// A PKCS #10 request, PEM. Only its key counts: what the certificate says is the site's choice.
    pub request: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Joined {
    /// PEM.
    pub certificate: String,
    /// The site's, PEM.
    pub authority: String,
}

/// `POST /v1/register`, with the manager's certificate: said again and again, so that the site knows that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Register {
    pub disk: DiskId,
    pub node: NodeName,
    /// Where the disk is on its node.
    pub path: String,
    /// Where the manager listens.
    pub address: String,
    pub api_version: u32,
    pub api_min_version: u32,
    /// What it runs.
    pub program: logic::images::Program,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// Whether the site has a use for it; one that runs an old program and has no images left ends itself.
    pub wanted: bool,
    /// Seconds until it is expected to register again.
    pub again_after: u64,
}

/// The one line that a manager writes to its standard output when it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Serving {
    pub address: String,
    pub disk: DiskId,
    pub version: String,
    pub api_version: u32,
    pub api_min_version: u32,
}

/// How the site refuses: what was wrong, and the way out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub api_version: String,
    /// `Status`
    pub kind: String,
    /// As the HTTP status.
    pub code: u16,
    /// One word for programs, like `NotFound`, `AlreadyExists`, `Conflict`, `InUse`, `Unauthorized`, `Invalid`.
    pub reason: String,
    pub message: String,
    pub hint: String,
}
