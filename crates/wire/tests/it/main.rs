//! The integration tests of `wire`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod generated;
