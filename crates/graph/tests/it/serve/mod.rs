//! The service over real sockets on loopback.

mod asking;
mod chain;
mod fake;
mod limits;
mod overrides;
mod support;
mod swapping;
mod transport;
