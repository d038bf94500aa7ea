//! Appliances through the binary: every story of the document, on every backend; whatever goes wrong elsewhere; and a
//! kill at every point.
#![allow(clippy::unwrap_used)]

mod agent;
mod asking;
mod guide;
mod kills;
mod scenarios;
mod site;
mod slot;
mod vm;
