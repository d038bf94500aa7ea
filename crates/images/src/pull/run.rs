//! The pull itself: the rest of the stream, then what is missing, then the seal; from the top after each interruption.

use std::sync::Arc;
use std::time::Duration;

use logic::images::{Held, Seal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trust::digest::Digest;

use super::error::PullError;
use super::fresh::Fresh;
use super::sums::Sums;
use super::{gaps, intake};
use crate::file::{FileError, ImageFile, Validators};
use crate::origin::{Body, Known, Opened, Origin, OriginError};
use crate::settings::OriginSettings;
use crate::throttle::Throttle;

/// How often an origin may turn out to be another one while it is fetched.
const RESTARTS: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// So long others may take to bring what they have, without a chunk, before the origin is asked for it after all.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of an image that is not what it should be, shown to tell a page from an image.
const BEGIN: usize = 60;

/// How an image is pulled.
#[derive(Debug, Clone)]
pub struct Options {
    /// What it must be.
    pub checksum: Option<Digest>,
    /// Pieces that others of the site have, and that are fetched from them.
    pub elsewhere: watch::Receiver<Held>,
    pub throttle: Arc<Throttle>,
    pub settings: OriginSettings,
}

/// Fetches the image from its origin, going on from what is here, until it is downloaded. Stopped by the token, it keeps what
/// it has; with a wrong checksum it keeps nothing.
pub async fn pull(
    file: &Arc<ImageFile>,
    origin: &Origin,
    options: &Options,
    cancel: &CancellationToken,
) -> Result<(), PullError> {
    let checksum = agreed(options.checksum.as_ref(), origin.digest())?;
    if file.filled_now().checking {
        // What is good of a touched file is not fetched again.
        let stop = cancel.clone();
        blocking(file, move |file| file.verify(&mut |_| !stop.is_cancelled())).await?;
    }
    let mut pull =
        Pull { file, origin, options, checksum, cancel, restarts: 0, fresh: Fresh::new(0), unproven: false };
    let pulled = pull.until_downloaded().await;
    keep_nothing_refused(file, pulled).await
}

/// An image that can't be used whatever comes takes no room.
async fn keep_nothing_refused(file: &Arc<ImageFile>, pulled: Result<(), PullError>) -> Result<(), PullError> {
    if matches!(pulled, Err(PullError::File(FileError::Format(_)))) {
        blocking(file, ImageFile::discard).await?;
    }
    pulled
}

/// Takes in an image that somebody brings, in one go.
pub async fn take_in(
    file: &Arc<ImageFile>,
    body: Body,
    total: Option<u64>,
    options: &Options,
    cancel: &CancellationToken,
) -> Result<(), PullError> {
    let taken = take_all(file, body, total, options, cancel).await;
    keep_nothing_refused(file, taken).await
}

async fn take_all(
    file: &Arc<ImageFile>,
    body: Body,
    total: Option<u64>,
    options: &Options,
    cancel: &CancellationToken,
) -> Result<(), PullError> {
    let known = file.filled_now();
    if known.listed > 0 || known.downloaded {
        blocking(file, ImageFile::discard).await?;
    }
    if let Some(expected) = total {
        let limit = options.settings.largest;
        if expected > limit {
            return Err(OriginError::TooLarge { address: "the upload".into(), limit }.into());
        }
        blocking(file, move |file| file.set_about(Some(expected), &Validators::default())).await?;
    }
    let checksum = options.checksum.clone();
    let sums = Sums::start(file, is_sha512(checksum.as_ref()), cancel);
    let limit = options.settings.largest;
    let taken = intake::take(file, 0, body, &sums.fresh, limit, &options.throttle, cancel).await;
    let received = match (taken, total) {
        (Ok(received), Some(expected)) if received < expected => Err(PullError::Short { received, expected }),
        (Err(PullError::Origin(OriginError::Changed { .. })), Some(expected)) => {
            Err(PullError::Long { expected })
        }
        (taken, _) => taken,
    };
    let received = match received {
        Ok(received) => received,
        Err(error) => {
            sums.stop().await;
            return Err(error);
        }
    };
    blocking(file, move |file| file.set_about(Some(received), &Validators::default())).await?;
    let (sha256, sha512) = sums.finish(file).await?;
    if let Some(given) = &checksum {
        compare(file, given, &sha256, sha512.as_ref()).await?;
    }
    seal(file, sha256, sha512).await
}

struct Pull<'a> {
    file: &'a Arc<ImageFile>,
    origin: &'a Origin,
    options: &'a Options,
    checksum: Option<Digest>,
    cancel: &'a CancellationToken,
    restarts: u32,
    /// Where those who hash the whole get what comes.
    fresh: Arc<Fresh>,
    /// Parts were put together that only the checksum can tell to belong together.
    unproven: bool,
}

impl Pull<'_> {
    async fn until_downloaded(&mut self) -> Result<(), PullError> {
        loop {
            let known = self.file.seal().filter(|seal| self.is_vouched_for(seal));
            // With a seal that is known to be right, its root is proof enough.
            let sums = match known {
                Some(_) => None,
                None => Some(Sums::start(self.file, is_sha512(self.checksum.as_ref()), self.cancel)),
            };
            self.fresh = sums.as_ref().map_or_else(|| Fresh::new(0), |sums| Arc::clone(&sums.fresh));
            let fetched = self.until_all_is_here().await;
            let (sha256, sha512) = match (fetched, sums) {
                (Ok(()), Some(sums)) => sums.finish(self.file).await?,
                (Ok(()), None) => return self.finish().await,
                (Err(error), sums) => {
                    if let Some(sums) = sums {
                        sums.stop().await;
                    }
                    return Err(error);
                }
            };
            let Some(given) = &self.checksum else { return seal(self.file, sha256, sha512).await };
            if matches(given, &sha256, sha512.as_ref()) {
                return seal(self.file, sha256, sha512).await;
            }
            // Before the origin is blamed: is it what came from there?
            let bad = blocking(self.file, |file| file.scrub(&mut |_| true)).await?;
            if !bad.is_empty() {
                tracing::warn!(chunks = bad.len(), "bad on this disk, fetched again");
            } else if self.unproven {
                self.unproven = false;
                self.start_over().await?;
            } else {
                return compare(self.file, given, &sha256, sha512.as_ref()).await;
            }
        }
    }

    /// Whether the seal says what was asked for.
    fn is_vouched_for(&self, seal: &Seal) -> bool {
        match &self.checksum {
            Some(given) => given.as_str() == seal.sha256 || seal.sha512.as_deref() == Some(given.as_str()),
            None => true,
        }
    }

    /// Every chunk of the image, tried again as long as something comes.
    async fn until_all_is_here(&mut self) -> Result<(), PullError> {
        let (mut tries, mut before) = (0, self.progress());
        loop {
            let error = match self.once().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let now = self.progress();
            if now != before {
                (tries, before) = (0, now);
            }
            let passing = match error {
                PullError::Origin(OriginError::Changed { .. }) => {
                    self.start_over().await?;
                    continue;
                }
                PullError::Origin(error) if error.is_passing() => error,
                // Shorter than it said: as if it had broken off.
                PullError::Short { .. } => {
                    OriginError::Nonsense { address: self.origin.shown(), why: error.to_string() }
                }
                error => return Err(error),
            };
            tries += 1;
            if tries >= self.options.settings.tries.max(1) {
                return Err(PullError::GaveUp { tries, source: Box::new(passing) });
            }
            let wait = FIRST_WAIT.saturating_mul(1 << tries.min(8)).min(LONGEST_WAIT);
            let wait = passing.retry_after().unwrap_or(wait);
            tracing::info!(origin = %self.origin.shown(), error = %oci::chain(&passing), ?wait, "asked again");
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.cancel.cancelled() => return Err(PullError::Cancelled),
            }
        }
    }

    fn progress(&self) -> (u64, usize, u64) {
        let filled = self.file.filled_now();
        (filled.generation, filled.listed, filled.bytes)
    }

    fn known(&self) -> Known {
        let total = self.file.filled_now().total;
        Known { validators: self.file.validators(), total, checksum: self.checksum.is_some() }
    }

    async fn start_over(&mut self) -> Result<(), PullError> {
        self.restarts += 1;
        if self.file.seal().is_some() {
            return Err(PullError::OtherImage);
        }
        if self.restarts > RESTARTS {
            return Err(PullError::KeepsChanging { times: self.restarts });
        }
        tracing::warn!(origin = %self.origin.shown(), "the origin changed: all of it is fetched again");
        Ok(blocking(self.file, ImageFile::restart).await?)
    }

    async fn once(&mut self) -> Result<(), PullError> {
        let listed = self.file.with(|list, _, _| list.size())?;
        if self.file.filled_now().total != Some(listed) {
            self.rest_of_the_stream(listed).await?;
        }
        self.what_is_missing().await
    }

    /// The list grows to its end.
    async fn rest_of_the_stream(&mut self, from: u64) -> Result<(), PullError> {
        let known = self.known();
        let opening = self.origin.open(from, None, &known);
        let opened = tokio::select! {
            opened = opening => opened?,
            () = self.cancel.cancelled() => return Err(PullError::Cancelled),
        };
        let Opened { start, total, validators, unproven, body } = opened;
        self.unproven |= unproven;
        let about = blocking(self.file, move |file| file.set_about(total, &validators)).await;
        match about {
            Err(FileError::Size { .. }) => return Err(self.changed()),
            about => about?,
        }
        let limit = total.unwrap_or(self.options.settings.largest).saturating_sub(start);
        let first = if start == from { self.file.filled_now().listed } else { 0 };
        let received =
            intake::take(self.file, first, body, &self.fresh, limit, &self.options.throttle, self.cancel)
                .await?;
        let end = start + received;
        match total {
            Some(total) if end != total => Err(PullError::Short { received: end, expected: total }),
            Some(_) => Ok(()),
            None => {
                Ok(blocking(self.file, move |file| file.set_about(Some(end), &Validators::default())).await?)
            }
        }
    }

    /// What others have, they bring; the rest is asked of the origin.
    async fn what_is_missing(&self) -> Result<(), PullError> {
        let mut filled = self.file.filled();
        let mut elsewhere = self.options.elsewhere.clone();
        let mut alone = false;
        loop {
            filled.borrow_and_update();
            let others = if alone { Held::default() } else { elsewhere.borrow_and_update().clone() };
            let (missing, runs) = self
                .file
                .with(|list, held, _| (list.len() - held.count(), gaps::runs(list, held, &others)))?;
            if missing == 0 {
                return Ok(());
            }
            if let Some(run) = runs.into_iter().next() {
                gaps::fetch(self.file, self.origin, run, &self.known(), &self.options.throttle, self.cancel)
                    .await?;
                continue;
            }
            tokio::select! {
                _ = filled.changed() => {}
                changed = elsewhere.changed() => alone |= changed.is_err(),
                () = tokio::time::sleep(PATIENCE) => alone = true,
                () = self.cancel.cancelled() => return Err(PullError::Cancelled),
            }
        }
    }

    fn changed(&self) -> PullError {
        OriginError::Changed { address: self.origin.shown() }.into()
    }

    async fn finish(&self) -> Result<(), PullError> {
        match blocking(self.file, ImageFile::finish).await {
            Err(FileError::SealMismatch) => Err(PullError::OtherImage),
            finished => Ok(finished?),
        }
    }
}

fn is_sha512(checksum: Option<&Digest>) -> bool {
    checksum.is_some_and(|digest| digest.parts().0 == "sha512")
}

/// The one that holds, if two are said: they must be the same, or of different kinds, of which the given one decides.
fn agreed(given: Option<&Digest>, said: Option<&Digest>) -> Result<Option<Digest>, PullError> {
    match (given, said) {
        (Some(given), Some(said)) if given.parts().0 == said.parts().0 && given != said => {
            Err(PullError::TwoChecksums { given: given.clone(), said: said.clone() })
        }
        (given, said) => Ok(given.or(said).cloned()),
    }
}

fn matches(given: &Digest, sha256: &Digest, sha512: Option<&Digest>) -> bool {
    given == sha256 || Some(given) == sha512
}

/// With a wrong checksum nothing is kept: whatever it is, it is not the image.
async fn compare(
    file: &Arc<ImageFile>,
    given: &Digest,
    sha256: &Digest,
    sha512: Option<&Digest>,
) -> Result<(), PullError> {
    if matches(given, sha256, sha512) {
        return Ok(());
    }
    let got = if is_sha512(Some(given)) { sha512.unwrap_or(sha256) } else { sha256 }.clone();
    let begin = blocking(file, |file| {
        let mut bytes = Vec::new();
        if file.filled_now().listed > 0 {
            file.read(0..1, &mut bytes, 0)?;
        }
        bytes.truncate(BEGIN);
        Ok(bytes)
    })
    .await?;
    let begin = String::from_utf8(begin).ok().filter(|text| !text.contains('\0')).unwrap_or_default();
    blocking(file, ImageFile::discard).await?;
    Err(PullError::Checksum { given: given.clone(), got, begin })
}

async fn seal(file: &Arc<ImageFile>, sha256: Digest, sha512: Option<Digest>) -> Result<(), PullError> {
    let sealed = blocking(file, move |file| {
        let (size, root) = file.with(|list, _, _| (list.size(), list.root()))?;
        let sha512 = sha512.map(String::from);
        file.seal_as(Seal { size, root, sha256: sha256.into(), sha512 })?;
        file.finish()
    })
    .await;
    match sealed {
        Err(FileError::OtherSeal | FileError::SealMismatch) => Err(PullError::OtherImage),
        sealed => Ok(sealed?),
    }
}

async fn blocking<T: Send + 'static>(
    file: &Arc<ImageFile>,
    work: impl FnOnce(&ImageFile) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || work(&file)).await.unwrap_or(Err(FileError::Cancelled))
}
