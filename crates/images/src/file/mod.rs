//! Images as files on one disk: what is there, what is missing, and how it is filled, verified and finished.
//!
//! ```text
//! <disk>/holdfast-disk.cfg                          {"diskUUID": …}: checked before anything is touched
//! <disk>/backing-images/<name>-<uuid>/backing.tmp   while it is filled
//!                                     backing       once it is whole; never written to, except to repair it
//!                                     backing.cfg   what a whole one is; without it, or if it does not fit, nothing is whole
//!                                     backing.chunks  its list of chunks, and which of them were verified ([`log`])
//! ```
//!
//! All of it blocks: callers on an async runtime use `spawn_blocking` or `block_in_place`. Nothing here knows where bytes
//! come from.

mod config;
mod cut;
mod disk_dir;
mod donors;
mod error;
mod fill;
mod finish;
mod format;
mod image_file;
mod log;
mod open;
mod record;
mod reuse;
mod room;
mod state;
mod sync;
mod verify;

pub use config::Shape;
pub use cut::cut;
pub use disk_dir::{DiskDir, Found};
pub use error::FileError;
pub use fill::Put;
pub use format::{FormatError, shape_of};
pub use image_file::ImageFile;
pub use record::Validators;
pub use reuse::Reused;
pub use room::Room;
pub use state::Filled;
pub use verify::Pace;
