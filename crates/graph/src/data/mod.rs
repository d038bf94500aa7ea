//! Graph data: where it comes from, and what it says.

mod block;
mod channel;
pub mod check;
mod directory;
pub mod files;
pub mod git;
pub mod image;
mod raw;
mod source;
pub mod tree;
mod yaml;

pub use check::check;
pub use source::{DataError, DataSource};
