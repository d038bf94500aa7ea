//! upgrade: one appliance, from one release to the next, as a transaction.
//!
//! `logic::upgrade` decides; here it is carried out, on one of the [`backend`]s. Nothing here prints. Start reading at
//! [`layout`], which says what lies where and what a snapshot captures.

mod appliance;
pub mod backend;
pub mod commands;
mod configuration;
mod error;
mod history;
pub mod kubernetes;
pub mod layout;
pub mod migration;
pub mod readiness;
pub mod release;
pub mod secrets;
pub mod settings;
pub mod supervise;
mod transaction;
pub mod workload;

pub use appliance::{Appliance, BackendKind, Held, Identity, names};
pub use configuration::Configuration;
pub use error::{BringError, Error, Result};
pub use history::{Entry as HistoryEntry, now, since as history_since};
pub use layout::Layout;
pub use transaction::{End, Options, Witness, chain};
