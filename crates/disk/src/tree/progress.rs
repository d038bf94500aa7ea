//! How long work tells how far it is, and is told to stop. It must not know how that is shown.

/// Receives progress from several threads. `()` ignores it.
pub trait Progress: Sync {
    /// So many more files and bytes are done. Called once per batch of files and per piece of a large
    /// file, not per file.
    fn advance(&self, files: u64, bytes: u64) {
        let _ = (files, bytes);
    }

    /// Asked between files, and between pieces of large ones; `true` ends the work with
    /// [`crate::Error::Cancelled`].
    fn cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}
