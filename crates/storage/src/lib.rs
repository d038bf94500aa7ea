//! Kubernetes objects, rewritten when their storage version changes.
//!
//! `logic::storage` decides; here is what reads and writes: [`discovery`] what API servers say, the trigger that keeps
//! StorageStates true and asks for migrations, the migrator that carries them out, and the controller that runs both.

mod admin;
pub mod api;
pub mod by_hand;
pub mod controller;
pub mod discovery;
mod error;
pub mod install;
mod memory;
pub mod metrics;
mod migrations;
pub mod migrator;
pub mod offline;
pub mod overview;
mod servers;
pub mod settings;
mod stored_versions;
mod trigger;
mod watch;

pub use error::Error;
pub use kube::Client;
pub use kubernetes::connect;

/// Runs a command of this part. One thread does it all: what is waited for is the API server.
pub fn run_to_the_end<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    memory::give_back_large_blocks();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::Runtime)?.block_on(command)
}
