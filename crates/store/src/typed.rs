//! Objects of one kind, with their type. Conversions only.

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::object::{Action, Part, Store, Stored, Version, Watch};

/// A kind of object. Implemented by a marker, so that the types of objects need not know of stores.
pub trait Kind: Send + Sync + 'static {
    /// Singular, as in `BackingImage`.
    const NAME: &'static str;
    /// Serialized with `metadata`, `spec` and `status`.
    type Object: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
}

pub struct Objects<K> {
    store: Arc<dyn Store>,
    kind: PhantomData<K>,
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), kind: PhantomData }
    }
}

#[derive(Debug, Clone)]
pub struct TypedList<O> {
    pub items: Vec<O>,
    pub version: Version,
}

#[derive(Debug, Clone)]
pub struct Changed<O> {
    pub action: Action,
    pub name: String,
    pub version: Version,
    pub object: O,
}

impl<K: Kind> Objects<K> {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, kind: PhantomData }
    }

    pub async fn get(&self, name: &str) -> Result<Option<K::Object>> {
        self.store.get(K::NAME, name).await?.map(|stored| typed::<K>(&stored)).transpose()
    }

    pub async fn list(&self) -> Result<TypedList<K::Object>> {
        let list = self.store.list(K::NAME).await?;
        let items = list.items.iter().map(typed::<K>).collect::<Result<_>>()?;
        Ok(TypedList { items, version: list.version })
    }

    pub async fn create(&self, object: &K::Object) -> Result<K::Object> {
        typed::<K>(&self.store.create(K::NAME, document::<K>(object)?).await?)
    }

    pub async fn update_spec(&self, object: &K::Object) -> Result<K::Object> {
        typed::<K>(&self.store.update(K::NAME, Part::Spec, document::<K>(object)?).await?)
    }

    pub async fn update_status(&self, object: &K::Object) -> Result<K::Object> {
        typed::<K>(&self.store.update(K::NAME, Part::Status, document::<K>(object)?).await?)
    }

    pub async fn mark_deleted(&self, name: &str) -> Result<K::Object> {
        typed::<K>(&self.store.mark_deleted(K::NAME, name).await?)
    }

    pub async fn remove(&self, name: &str, version: &Version) -> Result<()> {
        self.store.remove(K::NAME, name, version).await
    }

    pub fn watch(&self, from: &Version) -> Result<TypedWatch<K>> {
        Ok(TypedWatch { events: self.store.watch(K::NAME, from)?, kind: PhantomData })
    }
}

pub struct TypedWatch<K> {
    events: Box<dyn Watch>,
    kind: PhantomData<K>,
}

impl<K: Kind> TypedWatch<K> {
    pub async fn next(&mut self) -> Result<Changed<K::Object>> {
        let event = self.events.next().await?;
        let object = typed::<K>(&event.object)?;
        Ok(Changed { action: event.action, name: event.object.name, version: event.object.version, object })
    }
}

fn typed<K: Kind>(stored: &Stored) -> Result<K::Object> {
    K::Object::deserialize(&*stored.document).map_err(|source| Error::Type {
        kind: K::NAME,
        name: stored.name.clone(),
        source: Arc::new(source),
    })
}

fn document<K: Kind>(object: &K::Object) -> Result<Value> {
    serde_json::to_value(object).map_err(|source| Error::Type {
        kind: K::NAME,
        name: String::new(),
        source: Arc::new(source),
    })
}
