//! The trigger and the controller on a real API server.

// Whatever is not as expected ends the test.
#![allow(clippy::unwrap_used)]

mod aggregated;
mod carrying_out;
mod custom;
mod install;
mod killed;
mod leading;
mod life_cycle;
mod outages;
mod several_servers;
mod support;
