//! The integration tests of `storage`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod any_cluster;
mod kubernetes_1_20;
mod migrator;
mod trigger;
