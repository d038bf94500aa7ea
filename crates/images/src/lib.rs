//! Brings each image to a site once, and spreads it from disk to disk, every chunk verified.

pub mod client;
pub mod dial;
pub mod file;
pub mod identity;
pub mod listen;
pub mod manager;
pub mod origin;
pub mod pull;
pub mod qcow2;
pub mod settings;
pub mod site;
pub mod throttle;
pub mod transfer;
pub mod volume;
