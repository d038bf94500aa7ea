//! Which deployments the host has, and which of them runs: asked of rpm-ostree, bootc or ostree, or read from
//! a file.
//!
//! Parsers are pure (text in, [`Listing`] out); [`Listing::into_host`] is the one place that decides what is
//! booted and what a rollback would boot; [`read`] runs the command. A host that can't be read is an error and
//! a host that lists nothing has an empty list: neither ever means "there are no other deployments".

mod bootc;
mod error;
mod file;
mod listing;
mod ostree;
mod rpm_ostree;
mod source;

pub use bootc::parse_bootc;
pub use error::Error;
pub use file::parse_file;
pub use listing::{Entry, Listing};
pub use ostree::{boot_link, booted_by_link, parse_ostree};
pub use rpm_ostree::parse_rpm_ostree;
pub use source::{Found, Kind, Programs, Source, read};
