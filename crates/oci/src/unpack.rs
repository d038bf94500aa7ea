//! From bytes that arrive over a socket or from a file to a function that reads a layer, and to the certainty that
//! the bytes were the right ones.
//!
//! A refusal counts only if the digest fits: bytes that were garbled on the way look like a damaged layer, and must
//! not be taken for one.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::io::AsyncRead;
use tokio_util::io::SyncIoBridge;

use crate::error::FetchError;
use crate::layers::LayerError;
use crate::manifest::Descriptor;
use trust::digest::{Digest, Hasher};

pub(crate) type Blob = Pin<Box<dyn AsyncRead + Send>>;

/// Slower than this, a fetch that never ends is the more likely explanation.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 10;

/// How long a blob of a size may take, beside what is granted to every request.
pub(crate) fn time_for(size: u64, grace: Duration) -> Duration {
    grace.saturating_add(Duration::from_secs(size / SLOWEST_BYTES_PER_SECOND))
}

/// Lets `work` read the layer, then reads what it left of it. Outer: whether the bytes were got, and were those of
/// the digest; inner: what `work` made of them.
pub(crate) async fn with_layer<T: Send + 'static>(
    blob: Blob,
    layer: &Descriptor,
    grace: Duration,
    work: impl FnOnce(&mut dyn Read) -> Result<T, LayerError> + Send + 'static,
) -> Result<Result<T, LayerError>, FetchError> {
    let time_limit = time_for(layer.size, grace);
    let (digest, size) = (layer.digest.clone(), layer.size);
    let waited_for = Arc::new(());
    let watched = Arc::downgrade(&waited_for);
    let task = tokio::task::spawn_blocking(move || {
        let mut source = Source {
            hasher: digest.hasher(),
            reader: SyncIoBridge::new(blob),
            received: 0,
            watched,
            // One more than there should be: so that too much is noticed, and not read on.
            most: size.saturating_add(1),
            deadline: Instant::now() + time_limit,
            failure: None,
        };
        let result = work(&mut source);
        source.finish(&digest, size, time_limit).map(|()| result)
    });
    // The task ends early only with the runtime.
    let done = task.await.unwrap_or(Err(FetchError::Interrupted));
    drop(waited_for);
    done
}

/// The compressed bytes of a layer, hashed as they pass.
struct Source {
    hasher: Hasher,
    reader: SyncIoBridge<Blob>,
    received: u64,
    /// Gone when nobody waits for the work any more.
    watched: Weak<()>,
    most: u64,
    deadline: Instant,
    failure: Option<io::Error>,
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.most - self.received).unwrap_or(usize::MAX).min(into.len());
        if room == 0 {
            return Ok(0);
        }
        let failed = |source: &mut Self, error: io::Error| {
            let told = io::Error::from(error.kind());
            source.failure.get_or_insert(error);
            Err(told)
        };
        if self.watched.strong_count() == 0 {
            return failed(self, io::ErrorKind::ConnectionAborted.into());
        }
        if Instant::now() >= self.deadline {
            return failed(self, io::ErrorKind::TimedOut.into());
        }
        match self.reader.read(&mut into[..room]) {
            Ok(got) => {
                self.hasher.update(&into[..got]);
                self.received += got as u64;
                Ok(got)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => failed(self, error),
        }
    }
}

impl Source {
    fn finish(mut self, digest: &Digest, size: u64, time_limit: Duration) -> Result<(), FetchError> {
        let what = || format!("layer {digest}");
        if self.failure.is_none() {
            // A failure here is kept in `failure` as well.
            let _ = io::copy(&mut self, &mut io::sink());
        }
        if let Some(source) = self.failure {
            if source.kind() == io::ErrorKind::TimedOut && Instant::now() >= self.deadline {
                return Err(FetchError::TimedOut { what: what(), limit: time_limit });
            }
            return Err(FetchError::Body { what: what(), received: self.received, source });
        }
        let got = self.hasher.finish();
        if got != *digest || self.received != size {
            return Err(FetchError::Mismatch { what: what(), received: self.received, got });
        }
        Ok(())
    }
}
