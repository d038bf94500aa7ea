//! Finds out what digests are, each once, whoever asks and however often; with a limit on how many questions are
//! under way.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use oci::FetchError;
use oci::repository::Repository;
use tokio::sync::{OnceCell, Semaphore};

use super::cache::Cache;
use super::image::{self, Rules, Step, Verdict};
use super::patience::Patience;
use trust::digest::Digest;

/// Lists in lists: more than anybody writes.
const DEPTH: usize = 3;

pub(super) type Shared<T> = Result<T, Arc<FetchError>>;

/// Who may ask, and whether it is still worth it.
pub(super) struct Turns {
    turns: Semaphore,
    patience: Patience,
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        Self { turns: Semaphore::new(at_once.max(1)), patience: Patience::new(at_once) }
    }

    pub(super) async fn ask<T>(&self, question: impl Future<Output = Result<T, FetchError>>) -> Shared<T> {
        let _turn = self.turns.acquire().await;
        self.patience.check()?;
        self.patience.learn(question.await)
    }
}

pub(super) struct Reader {
    repository: Arc<Repository>,
    cache: Arc<Cache>,
    rules: Rules,
    under_way: Mutex<HashMap<Digest, UnderWay>>,
    turns: Arc<Turns>,
}

type UnderWay = Arc<OnceCell<Shared<Arc<Verdict>>>>;

impl Reader {
    pub(super) fn new(
        repository: &Arc<Repository>,
        cache: &Arc<Cache>,
        rules: &Rules,
        turns: &Arc<Turns>,
    ) -> Self {
        Self {
            repository: Arc::clone(repository),
            cache: Arc::clone(cache),
            rules: rules.clone(),
            under_way: Mutex::default(),
            turns: Arc::clone(turns),
        }
    }

    /// What an image is: known from before, or read now.
    pub(super) async fn verdict(&self, digest: Digest) -> Shared<Arc<Verdict>> {
        self.verdict_at(digest, DEPTH).await
    }

    async fn verdict_at(&self, digest: Digest, depth: usize) -> Shared<Arc<Verdict>> {
        if let Some(verdict) = self.cache.get(&digest, &self.rules) {
            return Ok(Arc::new(verdict));
        }
        let cell = {
            let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(under_way.entry(digest.clone()).or_default())
        };
        cell.get_or_init(|| self.fetch(&digest, depth)).await.clone()
    }

    async fn fetch(&self, digest: &Digest, depth: usize) -> Shared<Arc<Verdict>> {
        let step = self.turns.ask(image::read(&self.repository, digest, &self.rules)).await?;
        let too_deep = || Verdict::Refused { reason: "lists in lists in lists".to_owned() };
        // A child takes its own turn, so that lists that wait for children can't take all of them.
        let (verdict, child) = match step {
            Step::Verdict(verdict) => (verdict, None),
            Step::Same(_) | Step::Multi(_) if depth == 0 => (too_deep(), None),
            Step::Same(child) => {
                let verdict = Box::pin(self.verdict_at(child.clone(), depth - 1)).await?;
                ((*verdict).clone(), Some(child))
            }
            Step::Multi(child) => {
                let verdict = Box::pin(self.verdict_at(child.clone(), depth - 1)).await?;
                (image::as_multi(&verdict), Some(child))
            }
        };
        let (cache, rules) = (Arc::clone(&self.cache), self.rules.clone());
        let (kept, digest) = (verdict.clone(), digest.clone());
        blocking(move || cache.put(&digest, &rules, kept, child)).await?;
        Ok(Arc::new(verdict))
    }
}

pub(super) fn interrupted() -> Arc<FetchError> {
    Arc::new(FetchError::Interrupted)
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Shared<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| interrupted())
}
