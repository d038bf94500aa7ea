//! Where images come from: HTTP(S), a file or a directory of this machine, a blob of an OCI registry.
//!
//! Only what the configuration allows is asked, and no address on this machine or its links unless it says so: an image's
//! address is written by whoever may create images, and must not become a way into the machine. Whether the bytes are the
//! right ones is not known here.

mod address;
mod allow;
mod body;
mod error;
mod file;
mod http;

pub use address::Origin;
pub use body::{Body, Known, Opened};
pub use error::OriginError;
