//! A release: what `release.json` at the root of its image says.

mod error;
mod manifest;
mod programs;
mod text;

pub use error::Error;
pub use manifest::{
    DataVersions, FILE, Forward, Kubernetes, MIGRATIONS, Manifest, OstreePayload, Probe, Readiness,
    SlotPayload, VmDisk, VmPayload, read,
};
pub(crate) use programs::{PATH, are_there, find};
pub use text::{Words, expand};
