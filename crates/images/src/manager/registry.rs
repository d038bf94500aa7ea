//! The images of the disk, by name. Changes are made one at a time; looking never waits for the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use logic::images::{ImageId, ImageName};
use tokio_util::sync::CancellationToken;

use super::entry::{Begin, Changes, Doing, Entry};
use super::error::{Failed, Refusal};
use super::work::Work;
use crate::file::{DiskDir, FileError, ImageFile};

/// A disk holds fewer by far.
const IMAGES: usize = 10_000;

pub struct Registry {
    pub disk: Arc<DiskDir>,
    pub changes: Changes,
    work: Arc<Work>,
    entries: Mutex<BTreeMap<ImageName, Arc<Entry>>>,
    /// Held by whoever registers, forgets or hands over: of many equal calls, one wins.
    changing: tokio::sync::Mutex<()>,
    stopping: CancellationToken,
}

/// Runs what blocks where it may.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::Task)
}

impl Registry {
    pub fn new(disk: Arc<DiskDir>, work: Arc<Work>, stopping: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            disk,
            work,
            changes: Changes::default(),
            entries: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            stopping,
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ImageName, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.lock().values().cloned().collect()
    }

    pub fn get(&self, name: &ImageName) -> Option<Arc<Entry>> {
        self.lock().get(name).cloned()
    }

    /// The image that is meant: not one that has its name only.
    pub fn find(&self, name: &ImageName, id: &ImageId) -> Result<Arc<Entry>, Refusal> {
        let entry = self.get(name).ok_or_else(|| Refusal::Unknown(name.clone()))?;
        if entry.id != *id {
            let (name, here, asked) = (name.clone(), entry.id.clone(), id.clone());
            return Err(Refusal::OtherImage { name, here, asked });
        }
        Ok(entry)
    }

    pub async fn change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Takes up what there is on the disk of images that nobody has taken up yet.
    pub async fn take_up(&self) -> Result<(), Refusal> {
        let _one = self.change().await;
        let disk = Arc::clone(&self.disk);
        for found in blocking(move || disk.scan()).await?? {
            if self.get(&found.name).is_some() {
                // Two with one name: the controller says which it means, and deletes the other by its uuid.
                continue;
            }
            if let Err(error) = self.register(&found.name, &found.id).await {
                // One that can't be opened must not keep the others from being taken up.
                tracing::warn!(image = %found.name, cause = %error, "an image on the disk can't be taken up");
            }
        }
        Ok(())
    }

    /// Opens an image and makes it known; with the lock of [`Self::change`] held. One that is known is opened anew.
    pub async fn register(&self, name: &ImageName, id: &ImageId) -> Result<Arc<Entry>, Refusal> {
        if self.lock().len() >= IMAGES {
            return Err(Refusal::TooMany { limit: IMAGES });
        }
        // The one of before goes first: two that write to one image would each undo the other. Receivers come again, and
        // are sent what the new one has.
        let before = self.lock().get(name).cloned();
        if let Some(before) = &before {
            self.work.stop_sending(&before.id);
            let file = Arc::clone(&before.file);
            blocking(move || file.release()).await??;
        }
        let (disk, open_name, open_id) = (Arc::clone(&self.disk), name.clone(), id.clone());
        let file = blocking(move || ImageFile::open(&disk, &open_name, &open_id)).await??;
        let entry = Entry::new(file, self.changes.clone());
        if let Some(before) = before {
            before.forget();
            entry.peers.send_replace(before.peers.borrow().clone());
        }
        let fresh = Arc::clone(&entry);
        blocking(move || fresh.refresh()).await?;
        tokio::spawn(Arc::clone(&entry).follow());
        self.lock().insert(name.clone(), Arc::clone(&entry));
        self.changes.tell();
        Ok(entry)
    }

    /// The one place where something begins. Of many equal calls one wins; the others are told what is being done.
    pub async fn begin<F>(
        &self,
        doing: Doing,
        name: &ImageName,
        id: &ImageId,
        work: impl FnOnce(Arc<Entry>, CancellationToken) -> F,
    ) -> Result<Arc<Entry>, Refusal>
    where
        F: Future<Output = Result<(), Failed>> + Send + 'static,
    {
        let _one = self.change().await;
        if self.stopping.is_cancelled() {
            return Err(Refusal::Stopping);
        }
        self.still_the_disk().await?;
        let entry = match self.find(name, id) {
            Err(Refusal::Unknown(_)) => self.register(name, id).await?,
            Err(refusal) => return Err(refusal),
            Ok(entry) => {
                if entry.may_begin(doing)? == Begin::Instead {
                    entry.stop().await;
                }
                // What failed may have failed for what was known of the file: it is looked at anew.
                if entry.has_failed() { self.register(name, id).await? } else { entry }
            }
        };
        if entry.file.filled_now().downloaded && doing != Doing::Verifying {
            // Found whole on the disk: nothing is left to do, and that is what the caller wanted.
            return Ok(entry);
        }
        entry.begin(doing, |cancel| work(Arc::clone(&entry), cancel));
        Ok(entry)
    }

    async fn still_the_disk(&self) -> Result<(), Refusal> {
        let disk = Arc::clone(&self.disk);
        Ok(blocking(move || disk.check()).await??)
    }

    /// Removes an image with its files.
    pub async fn delete(&self, name: &ImageName, id: &ImageId) -> Result<(), Refusal> {
        let _one = self.change().await;
        let known = match self.find(name, id) {
            Ok(entry) if entry.is_offered() => return Err(Refusal::Offered(name.clone())),
            Ok(entry) => Some(entry),
            // Another one of that name, which nobody has taken up, may be there as well.
            Err(Refusal::Unknown(_) | Refusal::OtherImage { .. }) => None,
            Err(refusal) => return Err(refusal),
        };
        self.still_the_disk().await?;
        if let Some(entry) = &known {
            entry.stop().await;
        }
        let (disk, gone, gone_id) = (Arc::clone(&self.disk), name.clone(), id.clone());
        let was_there = blocking(move || -> Result<bool, FileError> {
            let there = disk.image_dir(&gone, &gone_id).symlink_metadata().is_ok();
            disk.remove(&gone, &gone_id)?;
            Ok(there)
        })
        .await??;
        match known {
            Some(entry) => self.forget(&entry),
            None if !was_there => return Err(Refusal::Unknown(name.clone())),
            None => {}
        }
        Ok(())
    }

    /// Does not know it any more; its files stay.
    pub fn forget(&self, entry: &Arc<Entry>) {
        let mut entries = self.lock();
        if entries.get(&entry.name).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            entries.remove(&entry.name);
        }
        drop(entries);
        entry.forget();
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Measures rates. Whether anything is being done.
    pub fn measure(&self, now: Instant) -> bool {
        // Not `any`: each is to be measured.
        self.all().iter().filter(|entry| entry.measure(now)).count() > 0
    }

    /// Stops everything that is being done, and brings what was written to the disk.
    pub async fn stop(&self) {
        let _one = self.change().await;
        for entry in self.all() {
            entry.stop().await;
            let file = Arc::clone(&entry.file);
            if let Ok(Err(error)) = blocking(move || file.release()).await {
                tracing::warn!(image = %entry.name, cause = %error, "what was written may have to be fetched again");
            }
        }
    }
}
