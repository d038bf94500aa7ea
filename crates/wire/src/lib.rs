//! Shapes that cross a process boundary. Nothing here decides or does anything.
//!
//! [`images`] is the gRPC API of image managers, generated from `proto/`; [`site`] are the bodies that managers and their
//! site exchange over HTTP.

mod convert;
pub mod images;
pub mod rest;
pub mod site;

pub use convert::{BadMessage, file_status, image};

/// The version of the managers' API that this program speaks.
///
/// 1: whole images only. 2: growing lists are followed, peers are told, images are uploaded and read.
pub const API_VERSION: u32 = 2;
/// The oldest version that this program still speaks.
pub const API_MIN_VERSION: u32 = 1;
