//! The update graph: what comes out of releases and graph data, and what clients see of it.

#![allow(clippy::unwrap_used)] // helpers of tests stop at the first surprise, as tests do

mod building;
mod paths;
mod properties;
mod windows;
mod world;
