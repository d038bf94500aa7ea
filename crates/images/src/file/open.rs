//! Taking up what is there: a whole image, part of one, or nothing. Opening changes nothing.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, RwLock};

use disk::Operation;
use logic::images::{Hash, Held, ImageId, ImageName, Seal};
use tokio::sync::watch;

use super::config::Config;
use super::disk_dir::{DiskDir, directory};
use super::error::FileError;
use super::image_file::{CHUNKS, ImageFile, PARTIAL, Shared, WHOLE, open_data};
use super::log::Log;
use super::record::Told;
use super::state::{Body, State};

impl ImageFile {
    /// The image as it is on the disk. If it was whole and its time or size changed, it counts as nothing until
    /// [`Self::verify`] has read it; whether that is so, [`super::Filled::checking`] says.
    pub fn open(disk: &Arc<DiskDir>, name: &ImageName, id: &ImageId) -> Result<Arc<Self>, FileError> {
        disk.check()?;
        let dir = disk.image_dir(name, id);
        let state = found(&dir, name, id)?;
        let complete = state.seal.is_some() && state.whole.is_none() && state.touched.is_none();
        let filled = state.filled();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            filled: watch::Sender::new(filled.clone()),
        });
        let disk = Arc::clone(disk);
        let (name, id) = (name.clone(), id.clone());
        let image =
            Arc::new(Self { disk, name, id, dir, shared, gate: RwLock::new(()), format: Mutex::new(None) });
        if complete
            && filled.held == filled.listed
            && let Err(error) = image.finish()
        {
            // It only lacked its last steps; whoever fetches it will be told why they fail.
            tracing::debug!(image = %image.name, error = %oci::chain(&error), "not finished yet");
        }
        Ok(image)
    }
}

fn metadata(path: &Path) -> Result<Option<Metadata>, FileError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
        Ok(_) => Err(FileError::Stranger { path: path.to_owned(), why: "not a plain file" }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(FileError::io(Operation::Inspect, path, e)),
    }
}

fn found(dir: &Path, name: &ImageName, id: &ImageId) -> Result<State, FileError> {
    match directory(dir) {
        Ok(()) => {}
        Err(FileError::Disk(error)) if error.is_not_found() => return Ok(State::default()),
        Err(error) => return Err(error),
    }
    let whole = metadata(&dir.join(WHOLE))?;
    let config = Config::read(dir, name, id)?;
    if let (Some(metadata), Some(config)) = (&whole, &config)
        && config.fits(metadata)
    {
        let seal = Some(Seal::from(config.seal.clone()));
        let (generation, whole) = (config.generation, Some(config.clone()));
        return Ok(State { generation, whole, seal, ..State::default() });
    }
    let Some((told, stamp)) = Log::read(&dir.join(CHUNKS), id)? else {
        // Without its log, only a whole image can be told from a wrong one: it is cut again.
        let touched = config.filter(|_| whole.is_some());
        let seal = touched.as_ref().map(|config| Seal::from(config.seal.clone()));
        let generation = touched.as_ref().map_or(0, |config| config.generation);
        return Ok(State { generation, seal, touched, ..State::default() });
    };
    let Some(data) = (if whole.is_some() { whole } else { metadata(&dir.join(PARTIAL))? }) else {
        return Ok(State {
            body: Some(Body::new(told.list, Held::default())),
            ..rest(told.generation, told.about, told.seal, stamp)
        });
    };
    if let Some(config) = config
        && told.list.adds_up_to(&Seal::from(config.seal.clone()))
    {
        let seal = Some(Seal::from(config.seal.clone()));
        let body = Some(Body::new(told.list, Held::default()));
        return Ok(State { body, touched: Some(config), ..rest(told.generation, told.about, seal, stamp) });
    }
    let held = here(dir, &told, &data)?;
    let body = Some(Body::new(told.list, held));
    Ok(State { body, ..rest(told.generation, told.about, told.seal, stamp) })
}

fn rest(generation: u64, about: super::record::About, seal: Option<Seal>, stamp: super::log::Stamp) -> State {
    State { generation, about, seal, stamp: Some(stamp), ..State::default() }
}

/// Which chunks are here: those that were synced, and those that were written, if they are what they should be.
fn here(dir: &Path, told: &Told, data: &Metadata) -> Result<Held, FileError> {
    let mut held = told.held.clone();
    if held.is_empty() {
        return Ok(held);
    }
    let file = open_data(dir, false)?;
    let mut bytes = Vec::new();
    for index in told.held.iter() {
        let span = told.list.span(index..index + 1);
        let beyond = span.end > data.len();
        let doubtful = told.unsynced.contains(index);
        if !beyond && !doubtful {
            continue;
        }
        bytes.resize(usize::try_from(span.end - span.start).unwrap_or(0), 0);
        let read = !beyond && file.read_exact_at(&mut bytes, span.start).is_ok();
        if !read || told.list.get(index).is_none_or(|chunk| chunk.hash != Hash::of(&bytes)) {
            held.remove(index);
        }
    }
    Ok(held)
}
