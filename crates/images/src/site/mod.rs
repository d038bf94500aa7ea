//! The site: its objects, the loop that makes them true, its managers, and the API for people.
//!
//! What should happen is decided in `logic::images`; here it is looked at, written down and carried out. A restart is:
//! observe, decide, act. Nothing is true in memory only, except how long something that failed is left alone.
//!
//! Managers on this machine are children that end with this process, and are started again by the next one: files,
//! verified chunks and leases are on disk, so that a transfer goes on where it was. Nothing is left running that nobody
//! looks after.

mod act;
mod call;
mod children;
mod disks;
mod error;
mod kinds;
mod members;
mod metrics;
mod monitor;
mod pass;
mod program;
mod rest;
mod retry;
mod run;
mod serve;
mod state;
mod tokens;

pub use error::{Error, Result};
pub use run::{Handle, Options, Service};
