//! What all transfers of a manager may use together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use logic::images::swarm::Rules;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::settings::ManagerSettings;

/// Bytes of a limited bandwidth that may be used at once, as time: more is smoother, less is exacter.
const BURST: Duration = Duration::from_millis(50);
const KIB: u64 = 1 << 10;
/// Without a few frames at once nothing goes on.
const LEAST_KIB: u32 = 2 << 10;

/// Shared by all images, each way.
#[derive(Debug, Clone)]
pub struct Limits {
    pub rules: Rules,
    /// Links of one image, to receivers.
    pub links: usize,
    /// A peer that is silent for this long is gone, or frozen.
    pub silence: Duration,
    pub outgoing: Arc<Bandwidth>,
    pub incoming: Arc<Bandwidth>,
    pub(super) sending: Memory,
    /// Apart from that for sending: otherwise two managers could each wait for the other to receive.
    pub(super) receiving: Memory,
}

/// Bytes that may be on their way through memory at once.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    left: Arc<Semaphore>,
    kib: u32,
}

impl Limits {
    pub fn new(settings: &ManagerSettings) -> Self {
        let silence = settings.peer_timeout.get().max(Duration::from_millis(100));
        let served = settings.sends_per_image.max(1);
        let rules = Rules::default();
        let rules = Rules {
            served,
            enough: served.max(rules.enough),
            links: rules.links.min(settings.connections.max(1)),
            frozen: silence,
            ..rules
        };
        Self {
            rules,
            links: settings.connections.max(1),
            silence,
            outgoing: Arc::new(Bandwidth::new(settings.bandwidth)),
            incoming: Arc::new(Bandwidth::new(settings.bandwidth)),
            sending: Memory::new(settings.memory / 2),
            receiving: Memory::new(settings.memory / 2),
        }
    }
}

impl Memory {
    fn new(bytes: u64) -> Self {
        let kib = u32::try_from(bytes / KIB).unwrap_or(u32::MAX).max(LEAST_KIB);
        Self { left: Arc::new(Semaphore::new(kib as usize)), kib }
    }

    /// Waits until so many bytes may be in memory; they may until the permit is dropped. Not for those who have a permit
    /// already and don't give it back before they have the next: all could wait for each other.
    pub(super) async fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.left).acquire_many_owned(self.permits(bytes)).await.ok()
    }

    /// The same, if it need not wait.
    pub(super) fn now(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.left).try_acquire_many_owned(self.permits(bytes)).ok()
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX).min(self.kib)
    }
}

/// So many bytes a second, taken in turn by everybody who asks.
#[derive(Debug)]
pub struct Bandwidth {
    /// Zero: no limit.
    per_second: u64,
    /// When all that was taken so far will have passed.
    passed: Mutex<Option<Instant>>,
}

impl Bandwidth {
    pub fn new(per_second: u64) -> Self {
        Self { per_second, passed: Mutex::new(None) }
    }

    /// Waits until so many bytes may pass.
    pub async fn take(&self, bytes: usize) {
        if let Some(until) = self.reserve(bytes, Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    /// When they may, if not now.
    fn reserve(&self, bytes: usize, now: Instant) -> Option<Instant> {
        if self.per_second == 0 {
            return None;
        }
        let takes = Duration::from_secs_f64(bytes as f64 / self.per_second as f64);
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let until = passed.map_or(now, |passed| passed.max(now)) + takes;
        *passed = Some(until);
        (until > now + BURST).then(|| until - BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_together_gets_no_more_than_the_bandwidth() {
        let (bandwidth, start) = (Bandwidth::new(1000), Instant::now());
        let last = (0..40).map(|_| bandwidth.reserve(100, start)).last().flatten();
        assert_eq!(last, Some(start + Duration::from_secs(4) - BURST));
        // Who did not use it before does not get it later.
        let later = start + Duration::from_secs(100);
        assert_eq!(bandwidth.reserve(1000, later), Some(later + Duration::from_secs(1) - BURST));
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        assert_eq!(Bandwidth::new(0).reserve(usize::MAX, Instant::now()), None);
    }
}
