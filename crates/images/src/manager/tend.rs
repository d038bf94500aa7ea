//! Looking after what is there: whether the disk is still the disk, whether files were touched, how fast bytes come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::entry::{Begin, Doing, Entry};
use super::error::{Failed, in_words};
use super::registry::{Registry, blocking};
use super::service::Manager;

/// How often rates are measured, and watchers told of progress.
const MEASURE: Duration = Duration::from_millis(500);
/// The list of an image that nobody used for this long is read from the disk when it is needed again.
const IDLE: Duration = Duration::from_secs(60);

/// While anything is being done, watchers hear of it twice a second. Offers that are too old end.
pub async fn measure(manager: Arc<Manager>) {
    let registry = &manager.registry;
    let mut ticks = tokio::time::interval(MEASURE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        manager.offers.expire(&manager.work);
        if registry.measure(Instant::now()) {
            registry.changes.tell();
        }
    }
}

pub async fn check(registry: Arc<Registry>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        look(&registry).await;
    }
}

/// One look at everything.
pub async fn look(registry: &Arc<Registry>) {
    let disk = Arc::clone(&registry.disk);
    let Ok(disk) = blocking(move || disk.check()).await else { return };
    for entry in registry.all() {
        entry.disk_is(disk.as_ref().err());
        if disk.is_ok() && !entry.is_busy() && !entry.is_offered() {
            look_at(registry, &entry).await;
        }
    }
}

async fn look_at(registry: &Registry, entry: &Arc<Entry>) {
    let file = Arc::clone(&entry.file);
    let looked = blocking(move || {
        file.rest(IDLE);
        file.check()
    })
    .await;
    match looked {
        Ok(Ok(_)) if entry.file.filled_now().checking => verify(registry, entry).await,
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => {
            tracing::warn!(image = %entry.name, "the file is gone");
            entry.fail("the file is gone: it has to be fetched again".to_owned());
        }
        Ok(Err(error)) if error.is_wrong_disk() => entry.disk_is(Some(&error)),
        Ok(Err(error)) => entry.fail(in_words(&error, error.hint())),
        // The manager ends.
        Err(_) => {}
    }
}

/// Reads a touched file again.
async fn verify(registry: &Registry, entry: &Arc<Entry>) {
    let _one = registry.change().await;
    let same = registry.get(&entry.name).is_some_and(|known| Arc::ptr_eq(&known, entry));
    if !same || !matches!(entry.may_begin(Doing::Verifying), Ok(Begin::Now)) {
        return;
    }
    let verified = Arc::clone(entry);
    entry.begin(Doing::Verifying, |cancel| verify_file(verified, cancel));
}

async fn verify_file(entry: Arc<Entry>, cancel: CancellationToken) -> Result<(), Failed> {
    let file = Arc::clone(&entry.file);
    let verified = blocking(move || file.verify(&mut |_| !cancel.is_cancelled())).await;
    match verified {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(in_words(&error, error.hint()).into()),
        Err(error) => return Err(in_words(&error, None).into()),
    }
    let filled = entry.file.filled_now();
    if filled.downloaded {
        return Ok(());
    }
    Err(format!(
        "the file was changed: {} of {} chunks are good, the others have to be fetched again",
        filled.held, filled.listed
    )
    .into())
}
