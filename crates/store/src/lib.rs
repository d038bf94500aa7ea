//! Objects with versions and watches.
//!
//! [`Store`] is the contract: what an API server of Kubernetes promises, and no more, so that one can stand behind it.
//! [`File`] keeps it in one file on this machine. [`Objects`] gives the objects their types.
//!
//! Architecture invariants: a write that was answered survives power loss; a write that is based on an object that has
//! changed since is refused; whoever watches misses nothing, or is told that it did. What an object means is for others.

mod error;
mod file;
mod memory;
mod object;
mod typed;

pub use error::{Error, OpenError, Result};
pub use file::File;
pub use object::{Action, Event, List, Part, Pending, Store, Stored, Version, Watch};
pub use typed::{Changed, Kind, Objects, TypedList, TypedWatch};
