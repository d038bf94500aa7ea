//! The contract of a store, in terms of JSON documents that have `metadata`, `spec` and `status`.
//!
//! It is Kubernetes' own: opaque versions, writes that are refused when the object has changed, spec and status
//! written apart, removal in two steps (marked first, removed when all that it stands for is gone: there a finalizer), and
//! watches that end with "too old" when they can't tell everything.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::error::Result;

/// Of an object, or of all of them at one moment. Only for equality: what it is made of is the store's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version(pub String);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    pub name: String,
    pub version: Version,
    /// With the name, the version and the times in its `metadata`.
    pub document: Arc<Value>,
}

#[derive(Debug, Clone)]
pub struct List {
    pub items: Vec<Stored>,
    /// To watch from.
    pub version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Added,
    Modified,
    Removed,
}

#[derive(Debug, Clone)]
pub struct Event {
    pub action: Action,
    /// For a removal, as it was last, under the version of its removal.
    pub object: Stored,
}

/// What a write replaces. The other part stays as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Spec,
    Status,
}

pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub trait Store: Send + Sync + 'static {
    fn get(&self, kind: &'static str, name: &str) -> Pending<'_, Option<Stored>>;
    /// All of a kind, in the order of their names.
    fn list(&self, kind: &'static str) -> Pending<'_, List>;
    /// The name is in the document's metadata.
    fn create(&self, kind: &'static str, document: Value) -> Pending<'_, Stored>;
    /// Refused unless `metadata.resourceVersion` of the document is the stored object's. Writing what is there already
    /// changes nothing, not even the version.
    fn update(&self, kind: &'static str, part: Part, document: Value) -> Pending<'_, Stored>;
    /// Marks it for removal. It stays until [`Store::remove`]; marking it again changes nothing.
    fn mark_deleted(&self, kind: &'static str, name: &str) -> Pending<'_, Stored>;
    /// Removes it for good, unless it has changed since that version.
    fn remove(&self, kind: &'static str, name: &str, version: &Version) -> Pending<'_, ()>;
    /// What happens to a kind after a version.
    fn watch(&self, kind: &'static str, from: &Version) -> Result<Box<dyn Watch>>;
}

pub trait Watch: Send {
    /// The next event, when it happens. An error is the end: list, and watch again. May be dropped while it waits.
    fn next(&mut self) -> Pending<'_, Event>;
}
