//! Migrations as a program sees them: registering, planning, running, stores.
#![allow(clippy::unwrap_used)]

mod examples;
mod executable;
mod memory;
mod support;
