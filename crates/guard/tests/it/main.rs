//! The integration tests of `guard`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod health_kubernetes;
mod health_rules;
mod health_run;
mod health_support;
#[path = "../../../host/tests/it/support/mod.rs"]
mod host_support;
mod migration;
