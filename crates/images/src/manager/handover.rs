//! Handing images over to the next manager of the same disk, while both run.
//!
//! The old one offers what it neither fetches nor sends, for a while; the new one takes it on; the old one lets go. No file
//! is touched. Until the old one lets go it owns what it offered: if the new one dies, the offer ends and all is as before.
//!
//! Which manager of a disk takes up what lies there at its start is settled by a lock on the disk: the one that finds it
//! taken waits for offers, or for the end of the other.

use std::fs::{File, OpenOptions};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logic::images::{ImageId, ImageName};

use super::entry::Entry;
use super::error::Refusal;
use super::registry::{Registry, blocking};
use super::work::Work;
use crate::file::DiskDir;

/// Long enough for a controller to call the new manager, short enough that receivers wait for it.
const OFFER: Duration = Duration::from_secs(20);
const LOCK: &str = ".holdfast-manager.lock";

#[derive(Debug, Default)]
pub struct Offers {
    open: Mutex<Option<(Instant, Vec<Arc<Entry>>)>>,
}

impl Offers {
    /// Offers every image that is idle. A new offer takes the place of an open one.
    pub async fn start(&self, registry: &Registry, work: &Work) -> Result<Vec<Arc<Entry>>, Refusal> {
        let _one = registry.change().await;
        self.withdraw(work);
        let until = Instant::now() + OFFER;
        let mut offered = Vec::new();
        for entry in registry.all() {
            let busy = entry.is_busy() || entry.file.filled_now().checking;
            if busy || work.sending(&entry.id) > 0 {
                continue;
            }
            // First nothing more is sent, then it is looked whether anything is: whoever was faster keeps its send.
            entry.offer(Some(until));
            work.pause(&entry.id, true);
            let file = Arc::clone(&entry.file);
            if work.sending(&entry.id) > 0 || blocking(move || file.release()).await?.is_err() {
                entry.offer(None);
                work.pause(&entry.id, false);
                continue;
            }
            offered.push(entry);
        }
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some((until, offered.clone()));
        Ok(offered)
    }

    /// The new manager has them: they are forgotten here.
    pub async fn let_go(&self, registry: &Registry, work: &Work) -> Result<usize, Refusal> {
        let _one = registry.change().await;
        // Something may have begun since with what was offered too long ago: the controller has to ask again.
        self.expire(work);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((_, entries)) = open else { return Err(Refusal::NoOffer) };
        for entry in &entries {
            registry.forget(entry);
            work.stop_sending(&entry.id);
        }
        Ok(entries.len())
    }

    /// An offer that nobody confirmed in time is none: all is as before.
    pub fn expire(&self, work: &Work) {
        let is_old =
            |open: &Option<(Instant, _)>| open.as_ref().is_some_and(|(until, _)| Instant::now() >= *until);
        if is_old(&self.open.lock().unwrap_or_else(PoisonError::into_inner)) {
            tracing::info!("nobody took over what was offered");
            self.withdraw(work);
        }
    }

    fn withdraw(&self, work: &Work) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        for entry in open.into_iter().flat_map(|(_, entries)| entries) {
            entry.offer(None);
            work.pause(&entry.id, false);
        }
    }
}

/// Takes on what another manager of this disk offered. What is known already is opened anew, unless it is being used.
pub async fn take_on(registry: &Registry, images: &[(ImageName, ImageId)]) -> Result<(), Refusal> {
    let _one = registry.change().await;
    for (name, id) in images {
        match registry.find(name, id) {
            Ok(entry) if entry.is_busy() => {}
            Ok(_) | Err(Refusal::Unknown(_)) => drop(registry.register(name, id).await?),
            Err(refusal) => return Err(refusal),
        }
    }
    Ok(())
}

/// Held by the manager that takes up what lies on the disk; none while another one does.
pub fn first_on(disk: &DiskDir) -> Option<File> {
    let path = disk.path().join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    match file {
        Ok(file) => file.try_lock().is_ok().then_some(file),
        Err(error) => {
            tracing::warn!(path = %path.display(), cause = %error, "the disk can't be locked");
            None
        }
    }
}
