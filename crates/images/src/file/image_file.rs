//! One image on one disk. The other modules here add what can be done with it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use disk::{Operation, durable};
use logic::images::{ChunkList, Format, Held, ImageId, ImageName, Seal};
use rustix::fs::OFlags;
use tokio::sync::watch;

use super::config::{self, Shape};
use super::disk_dir::{DiskDir, directory};
use super::error::FileError;
use super::log::Log;
use super::record::{Header, Record, Validators};
use super::room::real_size;
use super::state::{Body, Filled, State, Writer};
use super::sync;

pub(super) const WHOLE: &str = "backing";
pub(super) const PARTIAL: &str = "backing.tmp";
pub(super) const CHUNKS: &str = "backing.chunks";

/// An image of a disk: whole, partial, or nothing yet.
#[derive(Debug)]
pub struct ImageFile {
    pub(super) disk: Arc<DiskDir>,
    pub(super) name: ImageName,
    pub(super) id: ImageId,
    pub(super) dir: PathBuf,
    pub(super) shared: Arc<Shared>,
    /// Held for reading while bytes are written, for writing while all of them are thrown away: what belongs to an
    /// earlier generation must not end up in the file of the next.
    pub(super) gate: RwLock<()>,
    pub(super) format: Mutex<Option<Format>>,
}

/// What the thread that syncs needs, too.
#[derive(Debug)]
pub(super) struct Shared {
    pub state: Mutex<State>,
    /// Something was written, synced or closed.
    pub changed: Condvar,
    pub filled: watch::Sender<Filled>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish(&self, state: &State) {
        let filled = state.filled();
        self.filled.send_if_modified(|before| {
            let changed = *before != filled;
            *before = filled;
            changed
        });
    }
}

impl ImageFile {
    pub fn name(&self) -> &ImageName {
        &self.name
    }

    pub fn id(&self) -> &ImageId {
        &self.id
    }

    pub fn disk(&self) -> &Arc<DiskDir> {
        &self.disk
    }

    /// Its directory on the disk.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file that may be used, once it is downloaded.
    pub fn path(&self) -> PathBuf {
        self.dir.join(WHOLE)
    }

    pub fn filled(&self) -> watch::Receiver<Filled> {
        self.shared.filled.subscribe()
    }

    pub fn filled_now(&self) -> Filled {
        self.shared.filled.borrow().clone()
    }

    /// Makes everybody who waits for a change look again.
    pub(crate) fn wake(&self) {
        self.shared.filled.send_modify(|_| ());
    }

    pub fn seal(&self) -> Option<Seal> {
        self.shared.lock().seal.clone()
    }

    pub fn validators(&self) -> Validators {
        self.shared.lock().about.validators.clone()
    }

    /// What it must be; otherwise it is looked up in its first bytes when it is finished.
    pub fn expect_format(&self, format: Option<Format>) {
        *self.format.lock().unwrap_or_else(PoisonError::into_inner) = format;
    }

    /// What kind of image it is, once it is downloaded.
    pub fn shape(&self) -> Option<Shape> {
        self.shared.lock().whole.as_ref().map(config::Config::shape)
    }

    /// What it takes on the disk, in bytes.
    pub fn real_size(&self) -> u64 {
        let size = |name| fs::symlink_metadata(self.dir.join(name)).map(|metadata| real_size(&metadata));
        size(WHOLE).or_else(|_| size(PARTIAL)).unwrap_or(0)
    }

    /// A look at the chunks. Short: nothing is written meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&ChunkList, &Held, Option<&Seal>) -> T) -> Result<T, FileError> {
        let mut state = self.shared.lock();
        self.load(&mut state)?;
        let state = &*state;
        let (list, held) = match &state.body {
            Some(body) => (&body.list, &body.held),
            None => (&ChunkList::default(), &Held::default()),
        };
        Ok(look(list, held, state.seal.as_ref()))
    }

    /// Lets go of what can be had again from the disk, if nobody used it for `idle`: a thousand whole images must not fill
    /// the memory with their lists.
    pub fn rest(&self, idle: Duration) {
        let mut state = self.shared.lock();
        let lately = state.used.is_some_and(|used| used.elapsed() < idle);
        if !lately && state.whole.is_some() && state.writer.is_none() {
            state.body = None;
            state.reading = None;
        }
    }

    /// Brings all that was written to the disk, and lets another manager have the image.
    pub fn release(&self) -> Result<(), FileError> {
        sync::flush(&self.shared, &self.dir)?;
        let mut state = self.shared.lock();
        if let Some(writer) = state.writer.take() {
            state.reading = Some(Arc::clone(&writer.data));
            state.stamp = Some(writer.log.stamp());
        }
        self.shared.changed.notify_all();
        Ok(())
    }

    /// The chunks of a whole image, from its log.
    pub(super) fn load(&self, state: &mut State) -> Result<(), FileError> {
        state.used = Some(Instant::now());
        if state.body.is_some() {
            return Ok(());
        }
        let Some(config) = &state.whole else {
            state.body = Some(Body::default());
            return Ok(());
        };
        let seal = Seal::from(config.seal.clone());
        match Log::read(&self.dir.join(CHUNKS), &self.id)? {
            Some((told, stamp)) if told.list.adds_up_to(&seal) => {
                let held = Held::all(told.list.len());
                state.body = Some(Body { list: told.list, held, bytes: seal.size });
                state.stamp = Some(stamp);
            }
            // Its list is lost: it is cut again, which verifies it on the way.
            _ => {
                state.touched = state.whole.take();
                state.body = Some(Body::default());
                self.shared.publish(state);
            }
        }
        Ok(())
    }

    /// The file's bytes.
    pub(super) fn reading(&self, state: &mut State) -> Result<Arc<File>, FileError> {
        if let Some(writer) = &state.writer {
            return Ok(Arc::clone(&writer.data));
        }
        if let Some(file) = &state.reading {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(open_data(&self.dir, false)?);
        state.reading = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Makes ready to write: the right disk, a directory, the lock, the log, the file.
    pub(super) fn writer<'a>(&self, state: &'a mut State) -> Result<&'a mut Writer, FileError> {
        if let Some(errno) = state.sync_failure.take() {
            return Err(FileError::io(Operation::Sync, &self.dir, io::Error::from_raw_os_error(errno)));
        }
        if state.writer.is_none() {
            self.disk.check()?;
            self.load(state)?;
            make_dir(&self.dir)?;
            let lock = lock_dir(&self.dir)?;
            let log = self.log(state)?;
            let data = open_data(&self.dir, true)?;
            // What is being verified has no log, perhaps; its bytes are all there is.
            if log.is_new && state.touched.is_none() {
                data.set_len(0).map_err(|e| FileError::io(Operation::Truncate, &self.dir, e))?;
                durable::sync_dir(&self.dir)?;
            }
            state.reading = None;
            state.writer =
                Some(Writer { _lock: lock, log: log.log, data: Arc::new(data), allocated: 0, room: None });
            sync::start(&self.shared, &self.dir);
        }
        state.writer.as_mut().ok_or(FileError::Cancelled)
    }

    fn log(&self, state: &mut State) -> Result<Opened, FileError> {
        let path = self.dir.join(CHUNKS);
        if let Some(stamp) = state.stamp {
            return match Log::resume(&path, &self.id)? {
                Some((log, now)) if now == stamp => Ok(Opened { log, is_new: false }),
                _ => Err(FileError::ChangedByOther { path }),
            };
        }
        // Nothing that could be made sense of. If there is something now, another manager made it.
        if Log::read(&path, &self.id)?.is_some() {
            return Err(FileError::ChangedByOther { path });
        }
        let header = Header::new(&self.id, state.generation);
        let (log, stamp) = Log::create(&path, &[Record::Header(&header), Record::About(&state.about)])?;
        state.stamp = Some(stamp);
        Ok(Opened { log, is_new: true })
    }
}

struct Opened {
    log: Log,
    is_new: bool,
}

impl Drop for ImageFile {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        // The lock ends here, not with the thread that may still be syncing.
        state.writer = None;
        self.shared.changed.notify_all();
    }
}

fn make_dir(dir: &Path) -> Result<(), FileError> {
    match fs::create_dir(dir) {
        Ok(()) => Ok(durable::sync_dir(dir.parent().unwrap_or(dir))?),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => directory(dir),
        Err(e) => Err(FileError::io(Operation::Create, dir, e)),
    }
}

fn lock_dir(dir: &Path) -> Result<File, FileError> {
    let file = File::open(dir).map_err(|e| FileError::io(Operation::Open, dir, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(FileError::Busy { path: dir.to_owned() }),
        Err(fs::TryLockError::Error(e)) => Err(FileError::io(Operation::Lock, dir, e)),
    }
}

/// Which of the two files there is: the whole one is also the one that is repaired.
pub(super) fn data_path(dir: &Path) -> PathBuf {
    let whole = dir.join(WHOLE);
    if fs::symlink_metadata(&whole).is_ok() { whole } else { dir.join(PARTIAL) }
}

pub(super) fn open_data(dir: &Path, write: bool) -> Result<File, FileError> {
    let path = data_path(dir);
    let file = fs::OpenOptions::new()
        .read(true)
        .write(write)
        .create(write)
        .truncate(false)
        .custom_flags(i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0))
        .open(&path)
        .map_err(|e| match e.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                FileError::Stranger { path: path.clone(), why: "a link, which may lead off the disk" }
            }
            _ => FileError::io(Operation::Open, &path, e),
        })?;
    let metadata = file.metadata().map_err(|e| FileError::io(Operation::Inspect, &path, e))?;
    if !metadata.is_file() {
        return Err(FileError::Stranger { path, why: "not a plain file" });
    }
    Ok(file)
}
