//! Which writes are allowed, and what they make of the objects. Nothing is changed here.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Write;
use crate::error::{Error, Result};
use crate::memory::{Change, Memory, stored};
use crate::object::{Action, Part, Stored, Version};

/// What etcd takes, so that nothing is kept here that could not be kept there.
const MOST_BYTES: usize = 3 << 19;
const MOST_OF_A_KIND: usize = 100_000;
const LONGEST_NAME: usize = 253;

/// Writes that become one transaction; each sees those before it.
pub(super) struct Batch<'a> {
    memory: &'a Memory,
    staged: HashMap<(&'static str, String), Option<Stored>>,
    pub changes: Vec<(Change, Vec<u8>)>,
    number: u64,
}

impl<'a> Batch<'a> {
    pub fn new(memory: &'a Memory) -> Self {
        Self { memory, staged: HashMap::new(), changes: Vec::new(), number: memory.version() }
    }

    fn get(&self, kind: &'static str, name: &str) -> Result<Stored> {
        let found = match self.staged.get(&(kind, name.to_owned())) {
            Some(staged) => staged.clone(),
            None => self.memory.get(kind, name),
        };
        found.ok_or_else(|| Error::NotFound { kind, name: name.to_owned() })
    }

    pub fn take(&mut self, kind: &'static str, write: Write) -> Result<Option<Stored>> {
        match write {
            Write::Create(document) => self.create(kind, document).map(Some),
            Write::Update(part, document) => self.update(kind, part, document).map(Some),
            Write::MarkDeleted(name) => self.mark(kind, &name).map(Some),
            Write::Remove(name, version) => self.remove(kind, &name, &version).map(|()| None),
        }
    }

    fn create(&mut self, kind: &'static str, mut document: Value) -> Result<Stored> {
        let name = name_of(kind, &document)?;
        match self.get(kind, &name) {
            Ok(_) => return Err(Error::Exists { kind, name }),
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let staged = self.staged.iter().filter(|((of, _), object)| *of == kind && object.is_some()).count();
        if self.memory.count(kind) + staged >= MOST_OF_A_KIND {
            return Err(Error::TooMany { kind, most: MOST_OF_A_KIND });
        }
        document["metadata"]["creationTimestamp"] = now().into();
        self.put(kind, Action::Added, name, document)
    }

    fn update(&mut self, kind: &'static str, part: Part, mut given: Value) -> Result<Stored> {
        let name = name_of(kind, &given)?;
        let stored = self.get(kind, &name)?;
        if given["metadata"]["resourceVersion"].as_str() != Some(stored.version.0.as_str()) {
            return Err(Error::Conflict { kind, name });
        }
        let part = match part {
            Part::Spec => "spec",
            Part::Status => "status",
        };
        let given = given[part].take();
        if stored.document[part] == given {
            return Ok(stored);
        }
        let mut document = (*stored.document).clone();
        document[part] = given;
        self.put(kind, Action::Modified, name, document)
    }

    fn mark(&mut self, kind: &'static str, name: &str) -> Result<Stored> {
        let stored = self.get(kind, name)?;
        if stored.document["metadata"]["deletionTimestamp"].is_string() {
            return Ok(stored);
        }
        let mut document = (*stored.document).clone();
        document["metadata"]["deletionTimestamp"] = now().into();
        self.put(kind, Action::Modified, name.to_owned(), document)
    }

    fn remove(&mut self, kind: &'static str, name: &str, version: &Version) -> Result<()> {
        let stored = self.get(kind, name)?;
        if stored.version != *version {
            return Err(Error::Conflict { kind, name: name.to_owned() });
        }
        let document = (*stored.document).clone();
        self.put(kind, Action::Removed, name.to_owned(), document).map(|_| ())
    }

    fn put(
        &mut self,
        kind: &'static str,
        action: Action,
        name: String,
        mut document: Value,
    ) -> Result<Stored> {
        let number = self.number + 1;
        document["metadata"]["resourceVersion"] = number.to_string().into();
        let type_error = |source| Error::Type { kind, name: name.clone(), source: Arc::new(source) };
        let bytes = serde_json::to_vec(&document).map_err(type_error)?;
        if bytes.len() > MOST_BYTES {
            return Err(Error::TooLarge { kind, name, bytes: bytes.len(), most: MOST_BYTES });
        }
        self.number = number;
        let object = stored(name.clone(), number, document);
        let staged = (action != Action::Removed).then(|| object.clone());
        self.staged.insert((kind, name), staged);
        let change = Change { kind, number, action, object: object.clone(), bytes: bytes.len() };
        self.changes.push((change, bytes));
        Ok(object)
    }
}

fn name_of(kind: &'static str, document: &Value) -> Result<String> {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() || name.len() > LONGEST_NAME || !document["spec"].is_object() {
        return Err(Error::Shape { kind, name: name.chars().take(LONGEST_NAME).collect() });
    }
    Ok(name.to_owned())
}

/// To the second, as Kubernetes has it.
fn now() -> String {
    let second = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(second).unwrap_or_default().to_string()
}
