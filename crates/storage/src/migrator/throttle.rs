//! How many writes are under way, over all migrations: as many as the server takes, none while it asks for a pause.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logic::storage::Pace;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::Metrics;

#[derive(Clone)]
pub(super) struct Throttle {
    shared: Arc<Shared>,
}

struct Shared {
    held: Mutex<Held>,
    freed: Notify,
    metrics: Arc<Metrics>,
    ceiling: usize,
}

struct Held {
    pace: Pace,
    under_way: usize,
    closed_until: Instant,
    /// When the server last said that it has enough: answers to what was sent before say nothing new.
    throttled: Instant,
    answered: Instant,
}

/// Leave for one request at a time, until it is dropped.
pub(super) struct Leave {
    shared: Arc<Shared>,
}

impl Throttle {
    pub fn new(ceiling: usize, metrics: Arc<Metrics>) -> Self {
        let pace = Pace::new(ceiling);
        metrics.at_once(pace.at_once());
        let now = Instant::now();
        let held = Held { pace, under_way: 0, closed_until: now, throttled: now, answered: now };
        let ceiling = ceiling.max(1);
        Self { shared: Arc::new(Shared { held: Mutex::new(held), freed: Notify::new(), metrics, ceiling }) }
    }

    /// Never are more than this many under way.
    pub fn ceiling(&self) -> usize {
        self.shared.ceiling
    }

    /// Waits for one's turn to write.
    pub async fn leave(&self) -> Leave {
        loop {
            let freed = self.shared.freed.notified();
            let closed_until = {
                let mut held = self.shared.held();
                let open = Instant::now() >= held.closed_until;
                if open && held.under_way < held.pace.at_once() {
                    held.under_way += 1;
                    return Leave { shared: self.shared.clone() };
                }
                (!open).then_some(held.closed_until)
            };
            match closed_until {
                Some(time) => tokio::time::sleep_until(time).await,
                None => freed.await,
            }
        }
    }

    /// Waits until the server's pause is over; for reading, which has no part in the number of writes.
    pub async fn open(&self) {
        loop {
            let until = self.shared.held().closed_until;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// An answer to a write that began then.
    pub fn answered(&self, began: Instant) {
        let mut held = self.shared.held();
        let before = held.pace.at_once();
        held.answered = Instant::now();
        held.pace.answered(began.elapsed());
        self.shared.changed(&held, before);
    }

    /// The server asked for a pause in its answer to what began then.
    pub fn throttled(&self, began: Instant, pause: Duration) {
        self.shared.metrics.throttled();
        let mut held = self.shared.held();
        let now = Instant::now();
        held.answered = now;
        held.closed_until = held.closed_until.max(now + pause);
        if began >= held.throttled {
            held.throttled = now;
            let before = held.pace.at_once();
            held.pace.throttled();
            self.shared.changed(&held, before);
        }
    }

    /// Whether the server answered anybody since then: if so, it is there.
    pub fn answered_since(&self, time: Instant) -> bool {
        self.shared.held().answered > time
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, held: &Held, before: usize) {
        let now = held.pace.at_once();
        if now != before {
            self.metrics.at_once(now);
            (before..now).for_each(|_| self.freed.notify_one());
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.shared.held().under_way -= 1;
        self.shared.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_pace_allows_are_under_way() {
        let throttle = Throttle::new(2, Arc::default());
        let first = throttle.leave().await;
        let _second = throttle.leave().await;
        let mut third = Box::pin(throttle.leave());
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(first);
        third.await;
    }

    #[tokio::test(start_paused = true)]
    async fn one_pause_is_one_step_back_however_many_heard_of_it() {
        let throttle = Throttle::new(16, Arc::default());
        let began = Instant::now();
        tokio::time::advance(Duration::from_millis(5)).await;
        for _ in 0..4 {
            throttle.throttled(began, Duration::from_secs(3));
        }
        assert_eq!(throttle.shared.held().pace.at_once(), 2);
        let before = Instant::now();
        drop(throttle.leave().await);
        assert_eq!(before.elapsed(), Duration::from_secs(3));
    }
}
