//! How much a migration may use, and who may interrupt it.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    pub limits: Limits,
    /// Set from elsewhere (a signal, an overall time limit) to end it early.
    pub stop: Option<&'a AtomicBool>,
    /// More that an executable may read, beside the system's programs and libraries, the directory it lies in, the
    /// stores and its own directory. A release names its own tree here.
    pub readable: Vec<PathBuf>,
    /// Run an executable although it can't be kept from the network or from writing elsewhere on this machine.
    pub allow_unconfined: bool,
}

/// Limits of each single migration. Those on memory, processes and output hold for executables: a Rust type is part of
/// the program that registered it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub time: Duration,
    /// Bytes, of all its processes together.
    pub memory: u64,
    pub processes: u32,
    /// Bytes on stdout: the answer.
    pub output: usize,
    /// Bytes of one new store file.
    pub store: u64,
    /// New store files.
    pub stores: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(300),
            memory: 1 << 30,
            processes: 128,
            output: 64 << 20,
            store: 64 << 30,
            stores: 1000,
        }
    }
}
