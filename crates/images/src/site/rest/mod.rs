//! The API for people and scripts, and for managers that join: JSON over HTTP, described by `openapi.json`.
//!
//! Handlers check what is asked, write it down, and answer; making it true is the loop's work.

mod admit;
mod answer;
mod content;
mod disks;
mod failure;
mod images;
mod routes;
mod tokens;
mod volumes;
mod watch;

pub(super) use admit::Speech;
pub(super) use failure::{Failure, Reason};
pub(super) use routes::router;
