//! A limit on bytes a second, shared by all who pass through it. It must not know what the bytes are.

use std::sync::Arc;

use crate::transfer::Bandwidth;

#[derive(Debug)]
pub struct Throttle(Arc<Bandwidth>);

impl Throttle {
    /// Bytes a second; zero: no limit.
    pub fn new(rate: u64) -> Self {
        Self::of(Arc::new(Bandwidth::new(rate)))
    }

    /// Shared with others who take of it.
    pub fn of(bandwidth: Arc<Bandwidth>) -> Self {
        Self(bandwidth)
    }

    /// Returns when `bytes` may pass. Who comes first passes first.
    pub async fn pass(&self, bytes: u64) {
        self.0.take(usize::try_from(bytes).unwrap_or(usize::MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn what_passes_takes_its_time_and_without_a_limit_none() {
        tokio::time::pause();
        let begin = Instant::now();
        Throttle::new(0).pass(u64::MAX).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let throttle = Throttle::new(1_000_000);
        for _ in 0..21 {
            throttle.pass(100_000).await;
        }
        let seconds = begin.elapsed().as_secs_f64();
        assert!((1.8..=2.1).contains(&seconds), "{seconds}");
    }
}
