//! What every backend promises, and what the pieces that `slot` is made of promise: files that survive a kill at any
//! system call, processes that never outlive whoever answers for them.

mod backends;
mod files;
mod files_killed;
mod files_without_power;
mod fixture;

mod processes;
mod readiness;
mod scratch;
mod slot;
mod supervising;
mod vm;
mod workloads;
