//! Snapshots of the state by copying it: shared where the file system can, and for the most part made beside a running
//! appliance, so that what is left for when it is off is to look at what has changed since.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use disk::durable::{
    exchange_durably, read_limited, rename_durably, sweep_temporaries, sync_dir, sync_fs, write_durably,
};
use disk::tree::{self, Copied, CopyOptions, Manifest, Time};
use disk::{Error as DiskError, Operation};
use logic::upgrade::{ImageId, SnapshotId};
use serde::{Deserialize, Serialize};

use super::lasting::make_last;
use super::{Files, hidden, id_of, is_there, make_dir, names_in};
use crate::backend::{Error, Result, Snapshot};

const RECORD: &str = "snapshot.json";
const RECORD_LIMIT: u64 = 64 << 10;
const STATE: &str = "state";
/// What the copy consists of, while it is being prepared: where there is none, the copy cannot be relied on.
const MANIFEST: &str = "prepared";
/// How often a running appliance may take files away under our hands.
const TRIES: usize = 5;
/// After a copy that took longer than this, so much has changed that a second look is worth it.
const LONG: Duration = Duration::from_secs(2);

/// Written when all of the snapshot is on disk: a snapshot without it is not whole.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    id: SnapshotId,
    image: ImageId,
    /// For people.
    made: String,
}

impl Files {
    /// All that there are, also those that are not whole.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let ids = names_in(&self.layout.snapshots())?.into_iter().filter_map(id_of::<SnapshotId>);
        ids.map(|id| Ok(Snapshot { image: self.record(&id)?.map(|record| record.image), id })).collect()
    }

    /// Does nothing where the snapshot is whole already. That files come and go while they are copied is no error: at
    /// the worst nothing is prepared, and [`Files::snapshot`] has all of it to do.
    pub fn prepare(&self, id: &SnapshotId) -> Result<()> {
        if self.record(id)?.is_some() {
            return Ok(());
        }
        make_dir(&self.layout.snapshot(id))?;
        for _ in 0..TRIES {
            let began = Instant::now();
            match self.prepare_once(id) {
                Ok(()) if began.elapsed() > LONG => return self.prepare_once(id).or_else(coming_and_going),
                Ok(()) => return Ok(()),
                Err(error) => coming_and_going(error)?,
            }
        }
        Ok(())
    }

    fn prepare_once(&self, id: &SnapshotId) -> Result<()> {
        // Whoever writes through a mapping leaves no trace in a page that is waiting to be written anyway. After this,
        // every change is one later than `began`, and is seen to be.
        let began = now();
        sync_fs(&self.layout.state())?;
        let (copied, _) = self.copy_state(id)?;
        sync_fs(&self.layout.snapshot(id))?;
        if let Some(mut manifest) = copied.manifest {
            manifest.started = manifest.started.min(began);
            manifest.save(&self.layout.snapshot(id).join(MANIFEST))?;
        }
        Ok(())
    }

    /// Of a state that nobody writes to. Quick where it was prepared.
    pub fn snapshot(&self, id: &SnapshotId, of: &ImageId) -> Result<()> {
        if self.record(id)?.is_some() {
            return Ok(());
        }
        let dir = self.layout.snapshot(id);
        make_dir(&dir)?;
        let (copied, before) = self.copy_state(id)?;
        make_last(&dir.join(STATE), before.as_ref(), copied.manifest.as_ref())?;
        let record = Record { id: id.clone(), image: of.clone(), made: jiff::Timestamp::now().to_string() };
        let path = dir.join(RECORD);
        let bytes =
            serde_json::to_vec(&record).map_err(|source| DiskError::Encode { path: path.clone(), source })?;
        Ok(write_durably(&path, &bytes)?)
    }

    /// A copy of the state that is not on disk yet, and what it was before, if it was brought up to date. A copy that
    /// fails takes no room.
    fn copy_state(&self, id: &SnapshotId) -> Result<(Copied, Option<Manifest>)> {
        let (state, dir) = (self.layout.state(), self.layout.snapshot(id));
        let (copy, prepared) = (dir.join(STATE), dir.join(MANIFEST));
        // Of a write that was cut off.
        sweep_temporaries(&dir)?;
        // One that cannot be read is as good as none.
        let before = Manifest::load(&prepared).ok().flatten();
        // From the first change on, the list does not say any more what the copy consists of.
        remove_file(&prepared)?;
        let options = CopyOptions { threads: self.threads, sync: false, ..CopyOptions::default() };
        if let Some(before) = before
            && is_there(&copy)?
            && let Ok(copied) = tree::update(&state, &copy, &before, &options, &())
        {
            return Ok((copied, Some(before)));
        }
        tree::remove_with(&copy, self.threads, &())?;
        let copied = self.copy_new(&state, &copy, &options)?;
        Ok((copied, None))
    }

    fn copy_new(&self, from: &Path, to: &Path, options: &CopyOptions) -> Result<Copied> {
        let above = to.parent().unwrap_or(from);
        if !tree::fits_beyond_doubt(from, above)? {
            let need = tree::measure(from, above, self.threads, &())?;
            let free = tree::free_space(above)?;
            if need.bytes > free.bytes || free.inodes.is_some_and(|inodes| need.inodes > inodes) {
                return Err(Error::NoRoom { path: above.to_owned(), need: need.bytes, free: free.bytes });
            }
        }
        tree::copy(from, to, options, &()).map_err(|error| {
            // What stays behind after a second failure is removed with the snapshot.
            let _ = tree::remove(to);
            error.into()
        })
    }

    /// State and release in force as they were at the snapshot, which stays as it is.
    pub fn revert(&self, id: &SnapshotId) -> Result<()> {
        let record = self.record(id)?.ok_or_else(|| Error::NoSnapshot { id: id.clone() })?;
        if !self.layout.release(&record.image).is_dir() {
            return Err(Error::NoImage { image: record.image });
        }
        let (state, root) = (self.layout.state(), self.layout.root());
        let incoming = root.join(hidden("incoming-state"));
        // Of an earlier try: either half a copy, or what that one has put out of force.
        tree::remove_with(&incoming, self.threads, &())?;
        let options = CopyOptions { threads: self.threads, sync: true, ..CopyOptions::default() };
        self.copy_new(&self.layout.snapshot(id).join(STATE), &incoming, &options)?;
        match is_there(&state)? {
            true => exchange_durably(&incoming, &state)?,
            false => rename_durably(&incoming, &state)?,
        }
        self.set_current(&record.image)?;
        tree::remove_with(&incoming, self.threads, &())?;
        // What was put out of force must not come back with the power, and take room that nobody knows of.
        Ok(sync_dir(root)?)
    }

    pub fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        let dir = self.layout.snapshot(id);
        if !is_there(&dir)? {
            return Ok(());
        }
        // First it is not whole any more, then it goes.
        remove_file(&dir.join(RECORD))?;
        sync_dir(&dir)?;
        tree::remove_with(&dir, self.threads, &())?;
        Ok(sync_dir(&self.layout.snapshots())?)
    }

    /// Where the copy of a whole snapshot lies.
    pub fn snapshot_state(&self, id: &SnapshotId) -> PathBuf {
        self.layout.snapshot(id).join(STATE)
    }

    fn record(&self, id: &SnapshotId) -> Result<Option<Record>> {
        let bytes = read_limited(&self.layout.snapshot(id).join(RECORD), RECORD_LIMIT)?;
        let record: Option<Record> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(record.filter(|record| record.id == *id))
    }
}

fn coming_and_going(error: Error) -> Result<()> {
    match error {
        Error::Disk(DiskError::Turned { .. }) => Ok(()),
        Error::Disk(error) if error.is_not_found() => Ok(()),
        error => Err(error),
    }
}

fn remove_file(path: &Path) -> Result<(), DiskError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(DiskError::io(Operation::Remove, path, error))
        }
        _ => Ok(()),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { sec: since.as_secs().cast_signed(), nsec: since.subsec_nanos() }
}
