//! Migrations as a program sees them: registering, planning, running, stores.

mod examples;
mod executable;
mod memory;
mod support;
