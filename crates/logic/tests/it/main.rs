//! The integration tests of `logic`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod agent;
mod graph;
mod images_site;
mod images_swarm;
mod migrate;
mod purity;
mod storage;
mod tree;
mod upgrade;
mod walk;
