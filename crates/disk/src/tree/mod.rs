//! Whole directory trees: copying, bringing a copy up to date, proving, measuring, removing, exchanging.
//!
//! Architecture invariants: symbolic links are never followed inside a tree; a tree is reached from one
//! open directory, so neither a path longer than the system's limit nor a link swapped in matters; file
//! content is read once at most. After a failed copy or update the target is left as it is: the caller
//! chose its name, and removes it.

mod ahead;
mod attributes;
mod content;
mod copy;
mod dir;
mod engine;
mod identity;
mod links;
mod make;
mod manifest;
mod manifest_file;
mod measure;
mod meta;
mod pace;
mod pool;
mod progress;
mod remove;
mod seal;
mod snapshot;
mod survey;
mod swap;
mod verify;
mod worker;

pub use copy::{ClonePolicy, Copied, CopyOptions, Method, Warning, copy, update};
pub use identity::{Free, TreeId, fits_beyond_doubt, free_space, identity, is_mount_point, same_filesystem};
pub use manifest::{Entry, Hash, Manifest, Seen};
pub use measure::{Need, measure};
pub use meta::{Kind, Time};
pub use progress::Progress;
pub use remove::{remove, remove_with};
pub use seal::seal;
pub use survey::survey;
pub use swap::swap_contents;
pub use verify::{Depth, Difference, Mismatch, VerifyOptions, verify};
