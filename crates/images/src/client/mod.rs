//! The client of a site's API, for the command line and for other programs. It shows nothing and decides nothing.

mod connect;
mod error;
mod files;
mod lines;
mod volumes;

pub use connect::{Client, Content, ImageEvent};
pub use error::Error;
pub use files::{Advance, CopyError};
pub use lines::Lines;
