//! The integration tests of `testkit`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod compare;
mod explore;
mod kube;
mod sample;
mod scratch_fs;
mod shared_checkout;
mod trace;
