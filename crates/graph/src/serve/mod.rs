//! The service: graphs over HTTP, made ahead.
//!
//! What a client may see is decided in `logic::graph`; here it is turned into bytes once and looked up ever after.

mod accept;
mod answer;
mod answers;
mod connection;
mod error;
mod http;
mod metrics;
mod owners;
pub mod query;
mod ready;
mod reply;
mod routes;
mod server;
mod signatures;
mod site;
mod tls;
mod upstream;

pub use error::Error;
pub use server::{Handle, Service};
