//! One blob: from a file that was begun, by digest, to its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use trust::digest::{Digest, Hasher};

use super::error::SaveError;
use super::index::blocking;
use super::{Heard, Order, path_of};
use crate::error::FetchError;
use crate::manifest::Descriptor;
use crate::reference::{ImageReference, ImageSource};
use crate::unpack::time_for;

/// Where blobs are until they are whole.
pub(super) const BEGUN: &str = ".holdfast-begun";
/// Written at once; also how often progress is told.
const PIECE: usize = 1 << 20;

fn begun_path(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join(BEGUN).join(digest.as_str().replace(':', "-"))
}

/// How much of a blob is there from before.
pub(super) async fn begun(layout: &Path, digest: &Digest) -> u64 {
    let path = begun_path(layout, digest);
    tokio::fs::metadata(path).await.map_or(0, |about| about.len())
}

/// Whether a file holds a blob, by its bytes.
pub(super) async fn is_right(path: &Path, blob: &Descriptor) -> Result<bool, SaveError> {
    let (path, blob) = (path.to_owned(), blob.clone());
    blocking(move || {
        let failed = |source| SaveError::File { path: path.clone(), source };
        let about = match fs::symlink_metadata(&path) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        if !about.is_file() || about.len() != blob.size {
            return Ok(false);
        }
        let mut file = File::open(&path).map_err(failed)?;
        let (hasher, length) = hashed(&mut file, &blob.digest).map_err(failed)?;
        Ok(length == blob.size && hasher.finish() == blob.digest)
    })
    .await
}

fn hashed(file: &mut File, digest: &Digest) -> io::Result<(Hasher, u64)> {
    let mut hasher = digest.hasher();
    let (mut piece, mut length) = (vec![0; PIECE], 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((hasher, length)),
            got => {
                hasher.update(&piece[..got]);
                length += got as u64;
            }
        }
    }
}

/// Brings one blob to its place.
pub(super) async fn fetch(
    source: &ImageSource,
    blob: &Descriptor,
    is_layer: bool,
    order: &Order<'_>,
    told: &(dyn Fn(u64) + Send + Sync),
) -> Result<(), SaveError> {
    let (begun, place) = (begun_path(order.into, &blob.digest), path_of(order.into, &blob.digest));
    if is_layer && brought(source, blob, order, &begun).await? {
        return finish(begun, place).await;
    }
    // A long blob over a bad line may break off any number of times, as long as each time brings it further.
    let mut before = length_of(&begun).await;
    loop {
        let attempt = || attempt(source, blob, &begun, told);
        match source.repository.retrying(attempt).await {
            Ok(written) => {
                written?;
                return finish(begun, place).await;
            }
            Err(error) => {
                let now = length_of(&begun).await;
                if !error.is_passing() || now < before.saturating_add(PIECE as u64) {
                    return Err(error.into());
                }
                before = now;
            }
        }
    }
}

async fn length_of(path: &Path) -> u64 {
    tokio::fs::metadata(path).await.map_or(0, |about| about.len())
}

/// Whether somebody nearer had it. What they began is not gone on with: it is theirs.
async fn brought(
    source: &ImageSource,
    blob: &Descriptor,
    order: &Order<'_>,
    begun: &Path,
) -> Result<bool, SaveError> {
    let (Some(blobs), ImageReference::Registry { base, .. }) = (order.blobs, &source.reference) else {
        return Ok(false);
    };
    // Whoever brings it asks the same registry, in the same way.
    let name = match base.scheme() {
        "http" => format!("http://{}", source.reference.name()),
        _ => source.reference.name(),
    };
    let theirs = begun.with_extension("brought");
    remove(&theirs).await?;
    let why = match blobs.bring(&name, &blob.digest, blob.size, &theirs).await {
        Ok(true) if is_right(&theirs, blob).await? => {
            let (theirs, ours) = (theirs.clone(), begun.to_owned());
            blocking(move || {
                fs::rename(&theirs, &ours).map_err(|source| SaveError::File { path: ours, source })
            })
            .await?;
            return Ok(true);
        }
        Ok(true) => "what was brought is not what its digest says".to_owned(),
        Ok(false) => String::new(),
        Err(why) => why,
    };
    remove(&theirs).await?;
    if !why.is_empty() {
        (order.heard)(Heard::NotBrought { digest: blob.digest.clone(), why });
    }
    Ok(false)
}

async fn remove(path: &Path) -> Result<(), SaveError> {
    let path = path.to_owned();
    blocking(move || match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SaveError::File { path, source: error }),
        _ => Ok(()),
    })
    .await
}

/// Durable before it has its name: the name says that it is whole.
async fn finish(begun: PathBuf, place: PathBuf) -> Result<(), SaveError> {
    blocking(move || {
        let failed = |source| SaveError::File { path: begun.clone(), source };
        File::open(&begun).and_then(|file| file.sync_all()).map_err(failed)?;
        fs::rename(&begun, &place).map_err(failed)?;
        let directory = place.parent().unwrap_or(&place);
        disk::durable::sync_dir(directory).map_err(|source| SaveError::Disk { path: place.clone(), source })
    })
    .await
}

/// What is there of a blob, and what its bytes came to so far.
struct Begun {
    file: File,
    hasher: Hasher,
    length: u64,
}

impl Begun {
    async fn open(path: &Path, blob: &Descriptor) -> Result<Self, SaveError> {
        let (path, blob) = (path.to_owned(), blob.clone());
        blocking(move || {
            let failed = |source| SaveError::File { path: path.clone(), source };
            let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = options.map_err(failed)?;
            let (hasher, length) = hashed(&mut file, &blob.digest).map_err(failed)?;
            let begun = Self { file, hasher, length };
            // Too long, or as long as it should be and still here: it was never the right one.
            let was_never = length >= blob.size && !begun.is_all_of(&blob);
            if was_never { begun.anew(&blob.digest).map_err(failed) } else { Ok(begun) }
        })
        .await
    }

    fn anew(self, digest: &Digest) -> io::Result<Self> {
        self.file.set_len(0)?;
        Ok(Self { file: self.file, hasher: digest.hasher(), length: 0 })
    }

    fn is_all_of(&self, blob: &Descriptor) -> bool {
        self.length == blob.size && self.hasher.clone().finish() == blob.digest
    }

    /// At its own place in the file: a write that nobody waits for any more must not push others aside.
    fn write(mut self, piece: &[u8]) -> io::Result<Self> {
        self.file.write_all_at(piece, self.length)?;
        self.hasher.update(piece);
        self.length += piece.len() as u64;
        Ok(self)
    }
}

/// Fetches what is missing. Outer: whether the bytes came, and were those of the digest; inner: whether they could be kept.
async fn attempt(
    source: &ImageSource,
    blob: &Descriptor,
    path: &Path,
    told: &(dyn Fn(u64) + Send + Sync),
) -> Result<Result<(), SaveError>, FetchError> {
    let what = || format!("blob {}", blob.digest);
    // Twice: what was begun before may have been wrong all along, which shows at the end only.
    loop {
        let begun = match Begun::open(path, blob).await {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(error)),
        };
        if begun.is_all_of(blob) {
            return Ok(Ok(()));
        }
        let limit = time_for(blob.size - begun.length, source.repository.grace);
        let done = tokio::time::timeout(limit, run(source, blob, begun, path, told)).await;
        let end = done.map_err(|_| FetchError::TimedOut { what: what(), limit })??;
        let (begun, resumed) = match end {
            Ok(end) => end,
            Err(error) => return Ok(Err(error)),
        };
        if begun.is_all_of(blob) {
            return Ok(Ok(()));
        }
        let (received, got) = (begun.length, begun.hasher.clone().finish());
        if received < blob.size {
            let source = io::ErrorKind::UnexpectedEof.into();
            return Err(FetchError::Body { what: what(), received, source });
        }
        let emptied = blocking({
            let (path, digest) = (path.to_owned(), blob.digest.clone());
            move || begun.anew(&digest).map(|_| ()).map_err(|source| SaveError::File { path, source })
        });
        if let Err(error) = emptied.await {
            return Ok(Err(error));
        }
        if !resumed {
            return Err(FetchError::Mismatch { what: what(), received, got });
        }
    }
}

type Kept<T> = Result<T, SaveError>;

/// To the end of what comes, or one piece more than there should be. Says whether it went on where it had been begun.
async fn run(
    source: &ImageSource,
    blob: &Descriptor,
    mut begun: Begun,
    path: &Path,
    told: &(dyn Fn(u64) + Send + Sync),
) -> Result<Kept<(Begun, bool)>, FetchError> {
    let what = || format!("blob {}", blob.digest);
    let failed = |source| SaveError::File { path: path.to_owned(), source };
    let (reader, starts) = source.repository.blob_from(&blob.digest, begun.length).await?;
    if starts != begun.length {
        begun = match begun.anew(&blob.digest) {
            Ok(begun) => begun,
            Err(error) => return Ok(Err(failed(error))),
        };
    }
    // One more than there should be: so that too much is noticed, and not read on.
    let mut reader = reader.take((blob.size - starts).saturating_add(1));
    let mut piece = Vec::with_capacity(PIECE);
    loop {
        let got = reader.read_buf(&mut piece).await;
        let ended = matches!(got, Ok(0) | Err(_));
        if ended || piece.len() >= PIECE {
            let full = std::mem::replace(&mut piece, Vec::with_capacity(if ended { 0 } else { PIECE }));
            let kept = blocking({
                let path = path.to_owned();
                move || begun.write(&full).map_err(|source| SaveError::File { path, source })
            });
            begun = match kept.await {
                Ok(begun) => begun,
                Err(error) => return Ok(Err(error)),
            };
            told(begun.length.min(blob.size));
        }
        match got {
            Ok(0) => return Ok(Ok((begun, starts > 0))),
            Ok(_) => {}
            Err(source) => return Err(FetchError::Body { what: what(), received: begun.length, source }),
        }
    }
}
