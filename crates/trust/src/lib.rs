//! Bytes and keys in, verdict out. Nothing here reads a file, the network or the clock.

pub mod container_signature;
pub mod digest;
mod keys;
pub mod openpgp;
