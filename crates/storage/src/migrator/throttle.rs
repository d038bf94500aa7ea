//! How many writes are under way, over all migrations: as many as the server takes, none while it asks for a pause. A server
//! behind the API server has a pace of its own: when it has enough, the others go on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logic::storage::Pace;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::Metrics;

#[derive(Clone)]
pub(super) struct Throttle {
    shared: Arc<Shared>,
    /// Of the API server, which passes on what is for this one, and counts it as its own.
    front: Option<Arc<Shared>>,
}

struct Shared {
    held: Mutex<Held>,
    freed: Notify,
    metrics: Arc<Metrics>,
    ceiling: usize,
    /// Whether its pace is the one that is shown.
    shown: bool,
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
    _own: Place,
    _front: Option<Place>,
}

struct Place(Arc<Shared>);

impl Throttle {
    pub fn new(ceiling: usize, metrics: Arc<Metrics>) -> Self {
        let shared = Shared::new(ceiling, metrics, true);
        shared.metrics.at_once(shared.held().pace.at_once());
        Self { shared: Arc::new(shared), front: None }
    }

    /// Of a server behind this one.
    pub fn behind(&self) -> Self {
        let shared = Shared::new(self.shared.ceiling, Arc::clone(&self.shared.metrics), false);
        Self { shared: Arc::new(shared), front: Some(Arc::clone(&self.shared)) }
    }

    /// Never are more than this many under way.
    pub fn ceiling(&self) -> usize {
        self.shared.ceiling
    }

    /// Waits for one's turn to write.
    pub async fn leave(&self) -> Leave {
        // Its own first: a place at the front is not kept from others while this server asks for a pause.
        let own = self.shared.place().await;
        let front = match &self.front {
            Some(front) => Some(front.place().await),
            None => None,
        };
        Leave { _own: own, _front: front }
    }

    /// Waits until the server's pause is over; for reading, which has no part in the number of writes.
    pub async fn open(&self) {
        self.shared.open().await;
        if let Some(front) = &self.front {
            front.open().await;
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
    fn new(ceiling: usize, metrics: Arc<Metrics>, shown: bool) -> Self {
        let now = Instant::now();
        let pace = Pace::new(ceiling);
        let held = Held { pace, under_way: 0, closed_until: now, throttled: now, answered: now };
        let ceiling = ceiling.max(1);
        Self { held: Mutex::new(held), freed: Notify::new(), metrics, ceiling, shown }
    }

    async fn place(self: &Arc<Self>) -> Place {
        loop {
            let freed = self.freed.notified();
            let closed_until = {
                let mut held = self.held();
                let open = Instant::now() >= held.closed_until;
                if open && held.under_way < held.pace.at_once() {
                    held.under_way += 1;
                    return Place(Arc::clone(self));
                }
                (!open).then_some(held.closed_until)
            };
            match closed_until {
                Some(time) => tokio::time::sleep_until(time).await,
                None => freed.await,
            }
        }
    }

    async fn open(&self) {
        loop {
            let until = self.held().closed_until;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, held: &Held, before: usize) {
        let now = held.pace.at_once();
        if now != before {
            if self.shown {
                self.metrics.at_once(now);
            }
            (before..now).for_each(|_| self.freed.notify_one());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.held().under_way -= 1;
        self.0.freed.notify_one();
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

    #[tokio::test(start_paused = true)]
    async fn a_server_behind_pauses_alone_but_not_one_in_front() {
        let front = Throttle::new(2, Arc::default());
        let (behind, other) = (front.behind(), front.behind());
        behind.throttled(Instant::now(), Duration::from_secs(60));
        let mut waiting = Box::pin(behind.leave());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        // Whoever waits for it keeps no place.
        let places = [front.leave().await, other.leave().await];
        let mut third = Box::pin(other.leave());
        assert!(futures_util::poll!(&mut third).is_pending(), "those behind count, too");
        drop(places);
        drop(third.await);

        front.throttled(Instant::now(), Duration::from_secs(3));
        let before = Instant::now();
        drop(other.leave().await);
        assert_eq!(before.elapsed(), Duration::from_secs(3));
        drop(waiting.await);
        assert_eq!(before.elapsed(), Duration::from_secs(60));
    }
}
