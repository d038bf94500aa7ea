//! The integration tests of `graph`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod data;
mod data_files;
mod data_support;
mod hiccups;
mod hostile_images;
mod layouts;
mod registry;
mod serve;
mod support;
