//! A store in one file, by redb with two-phase commits. One thread writes: it takes the requests that have gathered,
//! makes them one transaction, and answers when it is on disk. Reading is from memory.

mod batch;
mod open;

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use redb::{Database, TableDefinition};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use batch::Batch;

use crate::error::{Error, OpenError, Result};
use crate::memory::{Change, Memory};
use crate::object::{Action, List, Part, Pending, Store, Stored, Version, Watch};

/// Kind and name, to a document.
const OBJECTS: TableDefinition<(&str, &str), &[u8]> = TableDefinition::new("objects");
const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("holdfast");
/// Requests that wait, and that go into one transaction.
const MOST_WAITING: usize = 256;
const MOST_AT_ONCE: usize = 64;

pub struct File {
    memory: Arc<Memory>,
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

struct Request {
    kind: &'static str,
    write: Write,
    answer: oneshot::Sender<Result<Option<Stored>>>,
}

enum Write {
    Create(Value),
    Update(Part, Value),
    MarkDeleted(String),
    Remove(String, Version),
}

impl File {
    /// Opens the file, or begins an empty one. Reads all of it, and checks it.
    pub fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        let (database, memory) = open::load(path)?;
        let memory = Arc::new(memory);
        let (requests, waiting) = mpsc::channel(MOST_WAITING);
        let writing = Writing { database, memory: Arc::clone(&memory) };
        let writer = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writing.run(waiting))
            .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Self { memory, requests: Some(requests), writer: Some(writer) })
    }

    fn write(&self, kind: &'static str, write: Write) -> Pending<'_, Option<Stored>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let requests = self.requests.as_ref().ok_or(Error::Closed)?;
            requests.send(Request { kind, write, answer }).await.map_err(|_| Error::Closed)?;
            answered.await.map_err(|_| Error::Closed)?
        })
    }

    fn write_one(&self, kind: &'static str, write: Write) -> Pending<'_, Stored> {
        Box::pin(async move { self.write(kind, write).await?.ok_or(Error::Closed) })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Closes the queue, and waits for what is in it: the file is free again afterwards.
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Store for File {
    fn get(&self, kind: &'static str, name: &str) -> Pending<'_, Option<Stored>> {
        let found = self.memory.get(kind, name);
        Box::pin(async move { Ok(found) })
    }

    fn list(&self, kind: &'static str) -> Pending<'_, List> {
        Box::pin(async move { Ok(self.memory.list(kind)) })
    }

    fn create(&self, kind: &'static str, document: Value) -> Pending<'_, Stored> {
        self.write_one(kind, Write::Create(document))
    }

    fn update(&self, kind: &'static str, part: Part, document: Value) -> Pending<'_, Stored> {
        self.write_one(kind, Write::Update(part, document))
    }

    fn mark_deleted(&self, kind: &'static str, name: &str) -> Pending<'_, Stored> {
        self.write_one(kind, Write::MarkDeleted(name.to_owned()))
    }

    fn remove(&self, kind: &'static str, name: &str, version: &Version) -> Pending<'_, ()> {
        let removal = Write::Remove(name.to_owned(), version.clone());
        Box::pin(async move { self.write(kind, removal).await.map(|_| ()) })
    }

    fn watch(&self, kind: &'static str, from: &Version) -> Result<Box<dyn Watch>> {
        self.memory.watch(kind, from)
    }
}

/// The thread that writes.
struct Writing {
    database: Database,
    memory: Arc<Memory>,
}

impl Writing {
    fn run(self, mut waiting: mpsc::Receiver<Request>) {
        while let Some(first) = waiting.blocking_recv() {
            let mut requests = vec![first];
            while requests.len() < MOST_AT_ONCE
                && let Ok(next) = waiting.try_recv()
            {
                requests.push(next);
            }
            self.commit(requests);
        }
    }

    fn commit(&self, requests: Vec<Request>) {
        let mut batch = Batch::new(&self.memory);
        let mut answers = Vec::with_capacity(requests.len());
        for Request { kind, write, answer } in requests {
            answers.push((answer, batch.take(kind, write)));
        }
        match self.store(&batch.changes) {
            Ok(()) => {
                self.memory.apply(batch.changes.into_iter().map(|(change, _)| change).collect());
                for (answer, result) in answers {
                    // Whoever does not wait any more does not want to know.
                    let _ = answer.send(result);
                }
            }
            Err(error) => {
                let error = Error::Write(Arc::new(error));
                for (answer, result) in answers {
                    let _ = answer.send(result.and(Err(error.clone())));
                }
            }
        }
    }

    fn store(&self, changes: &[(Change, Vec<u8>)]) -> std::result::Result<(), redb::Error> {
        let Some((last, _)) = changes.last() else { return Ok(()) };
        let mut transaction = self.database.begin_write()?;
        // One phase is open to a file that was prepared to look committed; the price is one more sync.
        transaction.set_two_phase_commit(true);
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for (change, bytes) in changes {
                let key = (change.kind, change.object.name.as_str());
                match change.action {
                    Action::Removed => drop(objects.remove(key)?),
                    Action::Added | Action::Modified => drop(objects.insert(key, bytes.as_slice())?),
                }
            }
            transaction.open_table(NUMBERS)?.insert("version", last.number)?;
        }
        Ok(transaction.commit()?)
    }
}
