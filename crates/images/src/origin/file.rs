//! A file of this machine, or a directory (a stick) with a file named like the image.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use logic::images::ImageName;
use tokio::sync::mpsc;

use super::body::{Body, Known, Opened};
use super::error::OriginError;
use crate::file::Validators;
use crate::settings::OriginSettings;

const PIECE: usize = 1 << 20;
const AHEAD: usize = 2;
const ENDINGS: [&str; 4] = ["", ".qcow2", ".img", ".raw"];

#[derive(Debug)]
pub(super) struct FileOrigin {
    path: PathBuf,
    image: ImageName,
    directories: Vec<PathBuf>,
    largest: u64,
    stall: Duration,
}

impl FileOrigin {
    pub(super) fn new(path: PathBuf, image: ImageName, settings: &OriginSettings) -> Self {
        let directories = settings.directories.clone();
        let stall = settings.stall_timeout.get();
        Self { path, image, directories, largest: settings.largest, stall }
    }

    pub(super) fn shown(&self) -> String {
        format!("file://{}", self.path.display())
    }

    pub(super) async fn open(
        &self,
        from: u64,
        end: Option<u64>,
        known: &Known,
    ) -> Result<Opened, OriginError> {
        let (path, image, directories) = (self.path.clone(), self.image.clone(), self.directories.clone());
        let opening = tokio::task::spawn_blocking(move || find(&path, &image, &directories));
        let (file, path) =
            opening.await.map_err(|error| OriginError::Client { why: error.to_string() })??;
        let failed = |source| OriginError::File { path: path.clone(), source };
        let metadata = file.metadata().map_err(failed)?;
        let total = metadata.len();
        let address = self.shown();
        if total > self.largest {
            return Err(OriginError::TooLarge { address, limit: self.largest });
        }
        // As good as an ETag: time to the nanosecond, and which file it is.
        let etag =
            format!("\"{}.{:09}-{}-{}\"", metadata.mtime(), metadata.mtime_nsec(), metadata.ino(), total);
        let validators = Validators { etag: Some(etag), last_modified: None };
        if from > 0 && known.validators != validators {
            return Err(OriginError::Changed { address });
        }
        let end = end.unwrap_or(total).min(total);
        let (sender, receiver) = mpsc::channel(AHEAD);
        tokio::task::spawn_blocking(move || read(&file, &path, from..end, &sender));
        let body = Body::file(receiver, address, self.stall);
        Ok(Opened { start: from, total: Some(total), validators, unproven: false, body })
    }
}

/// The file, wherever links lead, if that is in one of the directories.
fn find(path: &Path, image: &ImageName, directories: &[PathBuf]) -> Result<(File, PathBuf), OriginError> {
    let failed = |source| OriginError::File { path: path.to_owned(), source };
    // Before anything is said about what is there: names outside are nobody's business.
    let outside = || OriginError::Directory { path: path.to_owned() };
    let found = match path.canonicalize() {
        Ok(found) => found,
        Err(error) => {
            let inside = directories.iter().any(|allowed| path.starts_with(allowed));
            return Err(if inside { failed(error) } else { outside() });
        }
    };
    let within = |found: &Path| {
        directories
            .iter()
            .filter_map(|allowed| allowed.canonicalize().ok())
            .any(|allowed| found.starts_with(allowed))
    };
    if !within(&found) {
        return Err(outside());
    }
    let found = if found.is_dir() {
        let names = ENDINGS.iter().map(|ending| found.join(format!("{image}{ending}")));
        let Some(file) = names.into_iter().find(|name| name.exists()) else {
            return Err(OriginError::NotInDirectory { path: found, name: image.to_string() });
        };
        let file = file.canonicalize().map_err(failed)?;
        if !within(&file) {
            return Err(outside());
        }
        file
    } else {
        found
    };
    // A pipe would be waited for.
    let metadata = std::fs::metadata(&found).map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is not a plain file")));
    }
    let file = File::open(&found).map_err(failed)?;
    Ok((file, found))
}

fn read(
    file: &File,
    path: &Path,
    range: std::ops::Range<u64>,
    sender: &mpsc::Sender<Result<Bytes, OriginError>>,
) {
    let mut at = range.start;
    while at < range.end {
        let length = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
        let mut piece = vec![0; length];
        let read = file
            .read_exact_at(&mut piece, at)
            .map(|()| Bytes::from(piece))
            .map_err(|source| OriginError::File { path: path.to_owned(), source });
        let failed = read.is_err();
        if sender.blocking_send(read).is_err() || failed {
            return;
        }
        at += length as u64;
    }
}
