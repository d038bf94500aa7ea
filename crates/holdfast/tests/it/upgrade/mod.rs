//! Appliances through the binary: every story of the document, on every backend; whatever goes wrong elsewhere; and a
//! kill at every point.

mod agent;
mod asking;
mod guide;
mod kills;
mod scenarios;
pub mod site;
mod slot;
mod vm;
