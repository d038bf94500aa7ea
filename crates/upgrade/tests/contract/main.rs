//! What every backend promises, and what the pieces that `slot` is made of promise: files that survive a kill at any
//! system call, processes that never outlive whoever answers for them.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod contract;
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
