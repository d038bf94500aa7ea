//! The integration tests of `images`, in one program: each program more costs a link and its dependencies again.
#![allow(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, too")]

mod https;
mod identity;
mod image_files;
mod pulls;
mod reuse;
mod site;
mod support;
mod transfer;
mod volumes;
