//! The trigger and the controller on a real API server.

mod aggregated;
mod custom;
mod install;
mod leading;
mod life_cycle;
mod outages;
mod several_servers;
mod support;
