//! Trying again what may go better the next time.

use std::future::Future;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

use crate::counters::{FetchCounters, add};
use crate::error::FetchError;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Also the longest that a server's own wish is followed: the next look comes anyway.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub async fn retrying<T, F>(
    retries: usize,
    counters: &FetchCounters,
    attempt: impl FnMut() -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let pauses = ExponentialBuilder::default()
        .with_min_delay(FIRST_PAUSE)
        .with_max_delay(LONGEST_PAUSE)
        .with_max_times(retries)
        .with_jitter();
    let wished = |error: &FetchError, pause: Option<Duration>| {
        let wish = error.retry_after().unwrap_or_default().min(LONGEST_PAUSE);
        pause.map(|pause| pause.max(wish))
    };
    attempt
        .retry(pauses)
        .when(FetchError::is_passing)
        .adjust(wished)
        .notify(|_, _| add(&counters.retries, 1))
        .await
}
