//! The trigger and the controller on a real API server.

// Whatever is not as expected ends the test.

mod aggregated;
mod carrying_out;
mod custom;
mod install;
mod killed;
mod leading;
pub mod life_cycle;
mod outages;
pub mod several_servers;
mod support;
