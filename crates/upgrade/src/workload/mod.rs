//! Workloads: what an appliance owns and runs apart from itself. They keep running while it is upgraded, from the image
//! of the release that made them, and their records stay in the form in which they were made: data of an older version is
//! migrated in memory on every load and never written back.

mod data;
mod error;
mod manage;
mod record;

pub use data::{Set, View, read, set};
pub use error::Error;
pub(crate) use manage::program;
pub use manage::{create, is_running, list, load, log, place, remove, start, stop};
pub use record::Record;

/// More than this one appliance does not own.
pub const MOST: usize = 10_000;
