//! What the parts that work in a cluster do alike: [`connect`] the way to its API servers and the [`credential`] for
//! it, [`request`] what became of asking
//! them, [`manifests`] what is installed there, [`lead`] who of several may write there, and the [`clock`]s that this goes by.
//!
//! What is read and written there is none of its business.

pub mod clock;
pub mod connect;
pub mod credential;
pub mod lead;
pub mod manifests;
pub mod request;
