//! What data migrations decide: which of them lead from the data that is there to the data that a release wants, and
//! what a migration changed, told without its secrets.
//!
//! Read [`path`] first. [`diff`] is what a plan shows of each step; [`Secrets`] keeps what must not be read out of
//! everything that is shown.

mod diff;
mod path;
mod secrets;
mod target;

pub use diff::{Change, KeyChange, diff, diff_knowing};
pub use path::{Applied, FIRST_VERSION, Known, Path, Refusal, path};
pub use secrets::{HIDDEN, SECRET_KEY, Secrets, is_secret};
pub use target::{BadTarget, Target};
