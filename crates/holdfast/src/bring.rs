//! Brings what a reference names into a directory of its own: an image from a registry or a layout, or a directory as
//! it is. What it is for, and whether it may be used, is decided elsewhere; a directory that was not brought to its end
//! is removed by whoever gave it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use disk::tree::{CopyOptions, Entry, Manifest, Progress};
use logic::exit::Exit;
use oci::address::AddressError;
use oci::manifest::Platform;
use oci::{Access, Extent, FetchError, ImageError, ImageReference, Limits};
use trust::digest::Digest;

use ::upgrade::settings::Settings;
use logic::upgrade::ReleaseVersion;

/// How often a stop is looked for while something is fetched.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// Of an image, what the reference pointed at; of a directory, that of a listing of what was copied.
    pub digest: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BringError {
    #[error("the reference")]
    Reference(#[source] AddressError),
    #[error("{reference} could not be fetched")]
    Fetch { reference: String, source: FetchError },
    #[error("{reference} is refused")]
    Image { reference: String, source: ImageError },
    #[error("{} could not be copied", path.display())]
    Copy { path: PathBuf, source: disk::Error },
    #[error("{} changed while it was copied", path.display())]
    Changed { path: PathBuf },
    #[error("there is no room for {reference} in {}", into.display())]
    NoRoom { reference: String, into: PathBuf },
    #[error("cannot make {} durable", path.display())]
    Sync { path: PathBuf, source: disk::Error },
    #[error("{} is in the way", path.display())]
    Occupied { path: PathBuf },
    #[error("cannot make {}", path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
}

impl BringError {
    pub fn exit(&self) -> Exit {
        match self {
            Self::Reference(_) => Exit::Usage,
            Self::Fetch { source, .. } if source.is_missing() => Exit::NotFound,
            // What has the wrong digest again and again is not what was asked for.
            Self::Fetch { source: FetchError::Mismatch { .. }, .. } => Exit::Refused,
            Self::Fetch { source, .. } if source.is_passing() => Exit::TryAgain,
            Self::Fetch { source: FetchError::Access { .. }, .. } => Exit::Usage,
            Self::Fetch { .. } | Self::Image { .. } => Exit::Refused,
            Self::Copy { source, .. } if source.is_not_found() => Exit::NotFound,
            Self::Changed { .. } | Self::NoRoom { .. } => Exit::TryAgain,
            Self::Interrupted => Exit::Interrupted,
            Self::Copy { .. }
            | Self::Sync { .. }
            | Self::Occupied { .. }
            | Self::Make { .. }
            | Self::Runtime(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Reference(_) => {
                "write HOST/REPO:TAG, HOST/REPO@sha256:…, oci:DIR:TAG, oci:DIR@sha256:…, or the path of a directory"
            }
            Self::Fetch { source, .. } if source.is_missing() => {
                "see how it is spelled, and whether it was pushed"
            }
            Self::Fetch { source: FetchError::Mismatch { .. }, .. } => {
                "push it again: what is stored there is not what its digest says"
            }
            Self::Fetch { source: FetchError::Denied { .. }, .. } => {
                "log in: `skopeo login HOST` on this machine"
            }
            Self::Fetch { source: FetchError::Access { .. }, .. } => "see the settings for this registry",
            Self::Fetch { .. } => "see that it can be reached from here, and try again",
            Self::Image { source: ImageError::Platform { .. }, .. } => {
                "build the image for this machine, too"
            }
            Self::Image { .. } => "build the image anew; `skopeo inspect docker://REF` shows what it is now",
            Self::Changed { .. } => "try again when nobody writes to it",
            Self::NoRoom { .. } => "make room there, and try again",
            Self::Occupied { .. } => "remove it, if nobody needs it",
            Self::Copy { .. } | Self::Make { .. } | Self::Sync { .. } => {
                "see that it may be read and written"
            }
            Self::Runtime(_) => "see whether the machine is out of memory or threads",
            Self::Interrupted => "run it again",
        }
    }
}

/// Brings `reference` into `into`, which must not exist; its parent must. Durable when it returns.
///
/// `HOST/REPO:TAG`, `HOST/REPO@sha256:…`, `oci:DIR:TAG` and `oci:DIR@sha256:…` are images, of which the one for this machine is unpacked
/// whole, without owners; anything that begins with `/` or `.`, or is a directory and no image, is a path.
pub fn bring(
    reference: &str,
    access: &Access,
    into: &Path,
    stop: &AtomicBool,
) -> Result<Brought, BringError> {
    bring_within(reference, access, &Limits::default(), into, stop)
}

fn bring_within(
    reference: &str,
    access: &Access,
    limits: &Limits,
    into: &Path,
    stop: &AtomicBool,
) -> Result<Brought, BringError> {
    let is_path = reference.starts_with(['/', '.']);
    match ImageReference::parse(reference) {
        Ok(image) if !is_path => bring_image(reference, &image, access, limits, into, stop),
        Err(error) if !is_path && !Path::new(reference).is_dir() => Err(BringError::Reference(error)),
        _ => bring_directory(Path::new(reference), into, stop),
    }
}

fn bring_image(
    shown: &str,
    reference: &ImageReference,
    access: &Access,
    limits: &Limits,
    into: &Path,
    stop: &AtomicBool,
) -> Result<Brought, BringError> {
    let path = || into.to_owned();
    std::fs::create_dir(into).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => BringError::Occupied { path: path() },
        io::ErrorKind::StorageFull => BringError::NoRoom { reference: shown.to_owned(), into: path() },
        _ => BringError::Make { path: path(), source },
    })?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(BringError::Runtime)?;
    let fetched = runtime.block_on(async {
        tokio::select! {
            fetched = fetch(reference, access, limits, into) => Some(fetched),
            () = stopped(stop) => None,
        }
    });
    // Waits for the thread that unpacks, which has nothing to read any more: then nobody writes to `into`.
    drop(runtime);
    let digest = match fetched {
        None => return Err(BringError::Interrupted),
        Some(Ok(digest)) => digest,
        Some(Err(ImageError::Fetch(source))) => {
            return Err(BringError::Fetch { reference: shown.to_owned(), source });
        }
        Some(Err(source)) if source.is_out_of_space() => {
            return Err(BringError::NoRoom { reference: shown.to_owned(), into: path() });
        }
        Some(Err(source)) => return Err(BringError::Image { reference: shown.to_owned(), source }),
    };
    disk::durable::sync_fs(into).map_err(|source| match source.is_out_of_space() {
        true => BringError::NoRoom { reference: shown.to_owned(), into: path() },
        false => BringError::Sync { path: path(), source },
    })?;
    Ok(Brought { digest: digest.as_str().to_owned() })
}

async fn fetch(
    reference: &ImageReference,
    access: &Access,
    limits: &Limits,
    into: &Path,
) -> Result<Digest, ImageError> {
    let source = reference.open(access, limits).await?;
    let image = source.image_for(&source.digest().await?, &Platform::here()).await?;
    image.unpack(into, Extent::Whole, limits).await?;
    Ok(image.digest)
}

async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}

struct UntilStopped<'a>(&'a AtomicBool);

impl Progress for UntilStopped<'_> {
    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

fn bring_directory(from: &Path, into: &Path, stop: &AtomicBool) -> Result<Brought, BringError> {
    let progress = UntilStopped(stop);
    let failed = |source: disk::Error| match source {
        disk::Error::Cancelled => BringError::Interrupted,
        disk::Error::Exists { path } => BringError::Occupied { path },
        disk::Error::Vanished { .. } | disk::Error::Turned { .. } => {
            BringError::Changed { path: from.to_owned() }
        }
        source if source.is_out_of_space() => {
            BringError::NoRoom { reference: from.display().to_string(), into: into.to_owned() }
        }
        source => BringError::Copy { path: from.to_owned(), source },
    };
    // No snapshot: what is brought is one directory among others, and is removed like them.
    let options = CopyOptions { snapshot: false, ..CopyOptions::default() };
    let copied = disk::tree::copy(from, into, &options, &progress).map_err(failed)?;
    let mut manifest = match copied.manifest {
        Some(manifest) => manifest,
        None => disk::tree::survey(into, 0, &progress).map_err(failed)?,
    };
    // Of the copy, not of the source: that may have changed by now.
    let changed = disk::tree::seal(into, &mut manifest, 0, &progress).map_err(failed)?;
    if !changed.is_empty() {
        return Err(BringError::Changed { path: into.to_owned() });
    }
    Ok(Brought { digest: digest_of(&manifest).as_str().to_owned() })
}

/// The same for the same names, kinds, modes and contents, whoever copied them whenever.
fn digest_of(manifest: &Manifest) -> Digest {
    let mut hasher = Digest::sha256(b"").hasher();
    for Entry { path, kind, mode, size, hash, .. } in manifest.entries() {
        // A path may hold anything but the zero that ends it; all that follows is of fixed form.
        hasher.update(path);
        let hash = hash.map(|hash| hash.map(|byte| format!("{byte:02x}")).concat()).unwrap_or_default();
        hasher.update(format!("\0{kind:?} {mode:o} {size} {hash}\n").as_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests;

/// A reference that means the same wherever it is used again: paths from the root.
pub fn absolute(reference: &str) -> String {
    let from_root = |path: &str| std::path::absolute(path).map(|path| path.display().to_string());
    match reference.strip_prefix("oci:").and_then(|rest| rest.rsplit_once(':')) {
        Some((directory, tag)) => from_root(directory).map(|directory| format!("oci:{directory}:{tag}")),
        None if Path::new(reference).is_dir() => from_root(reference),
        None => return reference.to_owned(),
    }
    .unwrap_or_else(|_| reference.to_owned())
}

/// How releases are brought for the part that moves appliances to them.
pub fn by(settings: &Settings) -> impl Fn(&str, &Path, &AtomicBool) -> Result<String, ::upgrade::BringError> {
    let access = access(settings);
    move |reference, into, stop| {
        bring(reference, &access, into, stop).map(|brought| brought.digest).map_err(|error| {
            ::upgrade::BringError {
                reference: reference.to_owned(),
                exit: error.exit(),
                hint: error.hint().to_owned(),
                source: Box::new(error),
            }
        })
    }
}

fn access(settings: &Settings) -> Access {
    let Settings { credentials, ca_file, proxy, .. } = settings.clone();
    Access { credentials, ca_file, proxy }
}

/// The version of the release that a reference names. It is brought for that, and let go again.
pub fn version(settings: &Settings, reference: &str) -> crate::failure::Result<ReleaseVersion> {
    let kept = settings.directory.join(format!("{}look-{}", disk::RESERVED_PREFIX, std::process::id()));
    let failed = |error: ::upgrade::Error| crate::failure::Failure::from(error);
    std::fs::create_dir_all(&settings.directory)
        .map_err(|source| disk::Error::io(disk::Operation::Create, &settings.directory, source))
        .map_err(|error| failed(error.into()))?;
    let _ = disk::tree::remove(&kept);
    let never = AtomicBool::new(false);
    let brought = by(settings)(reference, &kept, &never).map_err(::upgrade::Error::from);
    let version = brought.and_then(|_| Ok(::upgrade::release::read(&kept)?.version));
    let _ = disk::tree::remove(&kept);
    version.map_err(failed)
}
