//! Kubernetes objects, rewritten when their storage version changes.
//!
//! `logic::storage` decides; here is what reads and writes: [`discovery`] what API servers say, the trigger that keeps
//! StorageStates true and asks for migrations, the migrator that carries them out, and the controller that runs both.

pub mod api;
pub mod discovery;
mod error;
pub mod install;
pub mod metrics;
pub mod overview;
pub mod settings;

pub use error::Error;
pub use kube::Client;
