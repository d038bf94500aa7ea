//! Bytes and keys in, verdict out. Nothing here reads a file, the network or the clock.

pub mod container_signature;
pub mod cosign;
pub mod digest;
pub mod keyring;
mod keys;
pub mod openpgp;
