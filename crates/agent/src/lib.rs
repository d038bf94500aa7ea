//! The client of a graph: finds the update that this machine may take, brings and checks its image, has it applied, and
//! keeps what came of it.
//!
//! `logic::agent` decides. Here is what asks and carries: [`desk`] where wishes come in and news go out, [`quarantine`] where
//! images wait until they are trusted, [`machine`] what is moved, and [`run`] the loop that walks the books through their
//! states; [`cluster`] is a desk and a machine in Kubernetes. The parts that move things are given by whoever runs the agent: this crate knows neither appliances nor sites.

pub mod ask;
pub mod cluster;
pub mod desk;
pub mod machine;
pub mod metrics;
pub mod precondition;
mod prometheus;
pub mod quarantine;
pub mod run;
pub mod settings;

pub use run::{Agent, Ended, RunError, Stop};
