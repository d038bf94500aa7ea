//! The update graph: what comes out of releases and graph data, and what clients see of it.

mod building;
mod paths;
mod properties;
mod windows;
mod world;
