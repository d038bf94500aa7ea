//! Finds releases, builds the update graph, and serves to each client what it may see of it.
//!
//! What is decided (the graph, each client's view) is decided in `logic::graph`; here are the registry, the files, the
//! sockets and the clock.

pub mod current;
pub mod data;
pub mod picture;
pub mod scrape;
pub mod serve;
pub mod settings;
pub mod source;
