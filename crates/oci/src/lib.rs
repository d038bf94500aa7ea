//! Images in registries and in OCI layout directories: which there are, what is in them, and their files on a disk.
//!
//! Whatever comes out of here has the digest that it was asked for by, and a failure to fetch is never a verdict on what
//! was to be fetched. What an image is *for* is not known here: releases are `graph`'s. Most users need
//! [`reference::ImageReference`] only.

pub mod address;
mod auth;
mod authorizer;
pub mod counters;
pub mod error;
pub mod http;
pub mod layers;
mod layout;
pub mod limits;
pub mod manifest;
pub mod path;
pub mod reference;
mod registry;
pub mod repository;
pub mod retry;
pub mod save;
pub mod signatures;
mod tree;
mod unpack;

pub use authorizer::Authorizer;
pub use error::{FetchError, chain};
pub use http::Access;
pub use limits::Limits;
pub use reference::{Image, ImageError, ImageReference, ImageSource, ImageVersion};
pub use save::{Blobs, SaveError};
pub use tree::Extent;
