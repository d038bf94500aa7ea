//! upgrade: one appliance, from one release to the next, as a transaction.
//!
//! `logic::upgrade` decides; here it is carried out, on one of the [`backend`]s. Nothing here prints. Start reading at
//! [`layout`], which says what lies where and what a snapshot captures.

pub mod backend;
mod configuration;
mod error;
pub mod layout;
pub mod readiness;
pub mod release;
pub mod secrets;
pub mod supervise;
pub mod workload;

pub use configuration::Configuration;
pub use error::{Error, Result};
pub use layout::Layout;
