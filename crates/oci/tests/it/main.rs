//! The integration tests of `oci`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod access;
mod saving;
mod trees;
mod whole_trees;
