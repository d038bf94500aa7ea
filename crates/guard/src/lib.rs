//! guard: the data of one device, across every boot.
//!
//! Reads the host and its own records ([`device`]), lets `logic` decide, and carries out what was decided
//! ([`execute`]). The commands of the binary are the functions of [`commands`]; nothing here prints.

pub mod commands;
pub mod device;
mod error;
pub mod execute;
pub mod health;
mod layout;
mod migration;
pub mod records;
pub mod settings;

mod clock;

pub use device::Device;
pub use error::{Error, Result};
pub use execute::Witness;
pub use host;
pub use layout::Layout;
pub use migration::{Migration, Programs as MigrationPrograms};

/// An error with all its causes, on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
