//! What the contract needs of a backend to be tried on it.

use std::path::PathBuf;
use std::time::Duration;

use logic::upgrade::ImageId;
use upgrade::Layout;
use upgrade::backend::Backend;

/// How a release behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Good,
    /// Runs, and never says that it is ready.
    NeverReady,
    /// Ends as soon as it is started.
    Dead,
}

/// An appliance: release 1 in force, off; a key `colour` in its configuration; releases can be brought.
pub trait Fixture {
    fn new() -> Self;
    fn backend(&self) -> &dyn Backend;
    fn layout(&self) -> &Layout;
    /// A release, brought and ready to be staged.
    fn bring(&self, build: u64, kind: Kind) -> (ImageId, PathBuf);
    /// The version that the running one says to be.
    fn version(&self) -> Option<String>;
    /// Stores something, through the running one.
    fn put(&self, key: &str, value: &str);
    fn get(&self, key: &str) -> Option<String>;
    /// `colour` in the configuration.
    fn set_colour(&self, colour: &str);
    fn colour(&self) -> String;
    /// How many instances of the appliance run.
    fn instances(&self) -> usize;
    /// How long a release takes to be ready, generously.
    fn patience(&self) -> Duration;
}
