//! Where releases come from: registries, layout directories, and graphs that came ready-made.
//!
//! What is fetched is believed only if its digest fits, and a failure to fetch is never a verdict on what was to be
//! fetched. Other parts that need an image use [`reference::ImageReference`].

pub mod address;
mod auth;
pub mod cache;
pub mod counters;
pub mod error;
pub mod files;
pub mod http;
pub mod image;
pub mod layers;
mod layout;
pub mod manifest;
pub mod metadata;
pub(crate) mod one;
mod patience;
mod reader;
mod ready;
pub mod reference;
mod registry;
pub mod repository;
mod retry;
mod tagged;
mod unpack;

pub use metadata::parse_release_metadata;
pub use one::SourceError;
