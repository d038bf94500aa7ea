//! Opening the file: everything in it is read and checked once, and what is wrong with it is said in words.

use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError};
use serde_json::Value;

use super::{NUMBERS, OBJECTS};
use crate::error::OpenError;
use crate::memory::{Memory, stored};

const FORMAT: u64 = 1;
/// redb's own cache; everything is in memory already.
const CACHE_BYTES: usize = 4 << 20;

pub(super) fn load(path: &Path) -> std::result::Result<(Database, Memory), OpenError> {
    let new = std::fs::metadata(path).map_or(true, |found| found.len() == 0);
    // redb takes what it finds for granted in places; a damaged file must not end the process.
    let opened = std::panic::catch_unwind(|| {
        let mut database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path)?;
        let sound = new || database.check_integrity()?;
        Ok((database, sound))
    });
    let damaged = |what: &str| OpenError::Damaged { path: path.to_owned(), what: what.to_owned() };
    let database = match opened {
        Ok(Ok((database, _))) => database,
        Ok(Err(error)) => return Err(unopened(path, error)),
        Err(_) => return Err(damaged("it can't be made sense of")),
    };
    let read = |error: redb::Error| match error {
        redb::Error::Corrupted(what) => damaged(&what),
        error => OpenError::Read { path: path.to_owned(), source: Box::new(error) },
    };
    let number = |name: &str| -> std::result::Result<Option<u64>, redb::Error> {
        match database.begin_read()?.open_table(NUMBERS) {
            Ok(table) => Ok(table.get(name)?.map(|value| value.value())),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    match number("format").map_err(read)? {
        Some(FORMAT) => {}
        Some(found) => return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT }),
        // A crash while it was made leaves a database without tables.
        None if has_tables(&database).map_err(read)? => {
            return Err(OpenError::Foreign { path: path.to_owned() });
        }
        None => begin(&database).map_err(read)?,
    }
    if new {
        sync_directory(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    }
    let version = number("version").map_err(read)?.ok_or_else(|| damaged("its version is missing"))?;
    let mut objects = Vec::new();
    for entry in entries(&database).map_err(read)? {
        let (kind, name, bytes) = entry;
        let document: Value = serde_json::from_slice(&bytes)
            .map_err(|error| damaged(&format!("{kind} {name:?} is not JSON: {error}")))?;
        let number = document["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        match number {
            Some(number) if number <= version && document["metadata"]["name"] == *name => {
                objects.push((kind, stored(name, number, document)));
            }
            _ => return Err(damaged(&format!("the metadata of {kind} {name:?} is not what was written"))),
        }
    }
    Ok((database, Memory::new(version, objects)))
}

fn unopened(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::InUse { path },
        DatabaseError::Storage(StorageError::Corrupted(what)) => OpenError::Damaged { path, what },
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::InvalidData =>
        {
            OpenError::Foreign { path }
        }
        DatabaseError::Storage(StorageError::Io(error))
            if error.kind() == std::io::ErrorKind::UnexpectedEof =>
        {
            OpenError::Damaged { path, what: "it is too short".to_owned() }
        }
        DatabaseError::Storage(StorageError::Io(source)) => OpenError::Io { path, source },
        DatabaseError::RepairAborted => OpenError::Damaged { path, what: "it can't be repaired".to_owned() },
        DatabaseError::UpgradeRequired(_) => OpenError::Foreign { path },
        error => OpenError::Read { path, source: Box::new(error.into()) },
    }
}

fn has_tables(database: &Database) -> std::result::Result<bool, redb::Error> {
    Ok(database.begin_read()?.list_tables()?.next().is_some())
}

fn begin(database: &Database) -> std::result::Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    {
        let mut numbers = transaction.open_table(NUMBERS)?;
        numbers.insert("format", FORMAT)?;
        numbers.insert("version", 1)?;
        transaction.open_table(OBJECTS)?;
    }
    Ok(transaction.commit()?)
}

type Entry = (String, String, Vec<u8>);

fn entries(database: &Database) -> std::result::Result<Vec<Entry>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = transaction.open_table(OBJECTS)?;
    let mut entries = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (kind, name) = key.value();
        entries.push((kind.to_owned(), name.to_owned(), value.value().to_vec()));
    }
    Ok(entries)
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    std::fs::File::open(parent)?.sync_all()
}
