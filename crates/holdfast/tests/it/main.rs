//! The integration tests of `holdfast`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod agent_cluster;
mod bad_luck;
mod dist;
mod dist_boot;
mod filesystems;
mod graph;
mod images;
mod migrate;
mod power_cuts;
mod reference;
mod scenarios;
mod storage;
mod storage_guard;
mod storage_upgrade;
mod support;
mod upgrade;
