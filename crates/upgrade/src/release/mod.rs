//! A release: what `release.json` at the root of its image says.

mod error;
mod manifest;
mod text;

pub use error::Error;
pub use manifest::{
    DataVersions, FILE, Forward, MIGRATIONS, Manifest, OstreePayload, Probe, Readiness, SlotPayload, VmDisk,
    VmPayload, read,
};
pub use text::{Words, expand};
