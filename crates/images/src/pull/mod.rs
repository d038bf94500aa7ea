//! Fetching an image from its origin: one pass that reads, cuts, hashes and writes; going on after any interruption.
//!
//! What the site has already is not asked of the origin: [`Options::elsewhere`] says which pieces others hold, and
//! whoever fetches those (`transfer::receive`) runs beside. Nothing here decides who pulls.

mod error;
mod fresh;
mod gaps;
mod intake;
mod run;
mod sums;

pub use error::PullError;
pub use run::{Options, pull, take_in};
