//! The API of an image manager, as `proto/images.proto` has it. The code is generated and committed; a test fails when it
//! is stale, and writes it anew with `UPDATE=1`.

#[allow(clippy::all, clippy::pedantic, unreachable_pub)]
#[rustfmt::skip]
#[path = "generated/holdfast.images.v1.rs"]
mod generated;

pub use generated::*;
