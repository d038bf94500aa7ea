//! A cluster that is moved from release to release: wishes and news are a `ClusterVersion`, and a release is applied as the
//! Kubernetes manifests in its image, in order, each awaited.
//!
//! [`lead`] is where to begin: of several agents one works, and gets a [`Desk`] and a [`Cluster`] for as long as it leads.
//! Nothing here takes a cluster back: what was applied stays applied (docs/decisions/0010).

pub mod api;
mod desk;
mod error;
pub mod install;
mod lead;
mod machine;
mod manifests;
mod myself;
mod objects;
mod preconditions;
mod record;
mod settings;
mod shown;

pub use desk::Desk;
pub use error::ClusterError;
pub use lead::{Parts, lead};
pub use machine::{Cluster, Gate};
pub use settings::Settings;
