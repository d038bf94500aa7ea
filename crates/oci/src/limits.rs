//! A limit on everything that is fetched or unpacked.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Of one manifest or index.
    pub manifest_bytes: u64,
    /// Of one layer, packed or unpacked.
    pub layer_bytes: u64,
    /// Of all blobs of an image that is saved.
    pub image_bytes: u64,
    /// Of all files of a tree that is taken out of an image.
    pub tree_bytes: u64,
    /// Files, directories and links of such a tree.
    pub tree_entries: usize,
    /// Images that a repository or a layout may hold.
    pub images: usize,
    pub fetches_at_once: usize,
    /// For one request, and between two pieces of a body.
    pub fetch_timeout: Duration,
    pub retries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes: 4 << 20,
            layer_bytes: 8 << 30,
            image_bytes: 16 << 30,
            tree_bytes: 16 << 30,
            tree_entries: 1_000_000,
            images: 100_000,
            fetches_at_once: 16,
            fetch_timeout: Duration::from_secs(60),
            retries: 4,
        }
    }
}
