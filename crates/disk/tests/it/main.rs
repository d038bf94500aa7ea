//! The integration tests of `disk`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod common;
mod copying;
mod durability;
mod trees;
mod updating;
