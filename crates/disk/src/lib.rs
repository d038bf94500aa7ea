//! What Holdfast does to disks: durable writes, locks, the journal, and copying, comparing, removing
//! and exchanging whole directory trees.
//!
//! Architecture invariants: nothing here decides *what* should happen to a device's data; nothing here
//! prints, logs or reads the environment; nothing is asynchronous. Names and paths are bytes, never
//! assumed to be UTF-8. `unsafe` appears in `ioctl` only.

mod display;
pub mod durable;
mod error;
mod ioctl;
pub mod journal;
pub mod lock;
mod share;
pub mod tree;

pub use error::{Error, Operation, Result};
pub use journal::Journal;
pub use lock::{Holder, Lock};
pub use share::share_blocks;

/// Names that begin with this are Holdfast's own. At the top level of a data directory they are never
/// copied, and never moved by an exchange of contents.
pub const RESERVED_PREFIX: &str = ".holdfast-";
