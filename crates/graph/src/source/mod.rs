//! Where releases come from: registries, layout directories, and graphs that came ready-made.
//!
//! How images are fetched is not known here: that is `oci`. What they turn out to be is kept, and a failure to fetch
//! is never a verdict on what was to be fetched.

pub mod address;
pub mod cache;
pub mod counters;
pub mod image;
pub mod metadata;
pub(crate) mod one;
mod patience;
mod reader;
mod ready;
mod tagged;

pub use metadata::parse_release_metadata;
pub use one::SourceError;
