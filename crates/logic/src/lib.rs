//! Every decision that Holdfast makes, and the words it makes them with.
//!
//! Architecture invariant: nothing here reads a clock, a file, the network or the environment, and nothing waits.
//! What is known comes in as values, what should happen goes out as values.

pub mod agent;
pub mod exit;
pub mod graph;
pub mod guard;
pub mod host;
pub mod images;
pub mod lead;
pub mod migrate;
pub mod period;
pub mod storage;
pub mod upgrade;
pub mod version;
