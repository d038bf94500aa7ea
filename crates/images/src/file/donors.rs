//! Which chunks the images of a disk hold, by their hashes: an image's next version needs most of them again.
//!
//! Compact and bounded, because a disk may hold a thousand images: a part of each hash tells where to look, and what is found
//! there is verified like anything else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use logic::images::{Hash, ImageId, ImageName};

use super::disk_dir::{DiskDir, Found};
use super::error::FileError;
use super::image_file::CHUNKS;
use super::log::Log;
use super::record::Told;

/// 32 GiB of average chunks; eight megabytes of memory.
const MOST_CHUNKS: usize = 512 << 10;
const MOST_DONORS: usize = 256;

/// The chunks of other images on a disk.
#[derive(Debug)]
pub(super) struct Donors {
    dirs: Vec<PathBuf>,
    /// By the first bytes of their hashes.
    places: Vec<Place>,
    /// The images that there were, to tell whether it is still true.
    key: Vec<Key>,
}

type Key = (ImageName, ImageId, Option<SystemTime>, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    begin: u64,
    donor: u16,
    chunk: u32,
}

/// A chunk of another image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub donor: usize,
    pub chunk: usize,
}

fn begin(hash: &Hash) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.bytes()[..8]);
    u64::from_le_bytes(bytes)
}

impl Donors {
    /// Of all images of the disk, as they are now; made again only if one came, went or was finished.
    pub(super) fn of(disk: &DiskDir) -> Result<Arc<Self>, FileError> {
        let found = disk.scan()?;
        let key: Vec<Key> = found.iter().map(key).collect();
        let mut kept = disk.donors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(donors) = kept.as_ref().and_then(std::sync::Weak::upgrade)
            && donors.key == key
        {
            return Ok(donors);
        }
        let donors = Arc::new(Self::read(found, key));
        *kept = Some(Arc::downgrade(&donors));
        Ok(donors)
    }

    fn read(mut found: Vec<Found>, key: Vec<Key>) -> Self {
        // The newest first: the version before is most likely what is needed.
        found.sort_by_key(|found| std::cmp::Reverse(modified(&found.path)));
        let (mut dirs, mut places) = (vec![], vec![]);
        for Found { id, path, .. } in found.into_iter().take(MOST_DONORS) {
            // One that can't be read has nothing to give.
            let Ok(Some((told, _))) = Log::read(&path.join(CHUNKS), &id) else { continue };
            let Ok(donor) = u16::try_from(dirs.len()) else { break };
            for (chunk, part) in told.list.chunks().iter().enumerate() {
                if places.len() == MOST_CHUNKS {
                    break;
                }
                if told.held.contains(chunk) {
                    let chunk = u32::try_from(chunk).unwrap_or(u32::MAX);
                    places.push(Place { begin: begin(&part.hash), donor, chunk });
                }
            }
            dirs.push(path);
        }
        places.sort_unstable();
        Self { dirs, places, key }
    }

    pub(super) fn dir(&self, donor: usize) -> &Path {
        &self.dirs[donor]
    }

    /// Where a chunk with this hash may be, but not in `own`. Of several places, the one that follows `after`: neighbours are
    /// read, and shared, at once.
    pub(super) fn find(&self, hash: &Hash, own: &Path, after: Option<At>) -> Option<At> {
        let begin = begin(hash);
        let from = self.places.partition_point(|place| place.begin < begin);
        let mut places = self.places[from..]
            .iter()
            .take_while(|place| place.begin == begin)
            .map(|place| At { donor: usize::from(place.donor), chunk: place.chunk as usize })
            .filter(|at| self.dirs[at.donor] != own);
        let wanted = after.map(|at| At { chunk: at.chunk + 1, ..at });
        let first = places.next()?;
        if wanted == Some(first) {
            return Some(first);
        }
        places.find(|at| wanted == Some(*at)).or(Some(first))
    }
}

fn modified(dir: &Path) -> Option<SystemTime> {
    fs::metadata(dir.join(CHUNKS)).and_then(|metadata| metadata.modified()).ok()
}

/// A log that is only appended to makes no new key: what came since is found when the image is finished.
fn key(found: &Found) -> Key {
    let finished =
        fs::metadata(found.path.join(super::config::NAME)).and_then(|metadata| metadata.modified()).ok();
    let inode = fs::metadata(found.path.join(CHUNKS)).map_or(0, |metadata| metadata.ino());
    (found.name.clone(), found.id.clone(), finished, inode)
}

/// What the log in a directory says.
pub(super) fn told(dir: &Path, id: &ImageId) -> Result<Option<Told>, FileError> {
    Ok(Log::read(&dir.join(CHUNKS), id)?.map(|(told, _)| told))
}
