//! The desk of a cluster's agent: the spec of the `ClusterVersion` is what people wish, its status has the books and the news.

use std::sync::Arc;

use jiff::Timestamp;
use logic::agent::Books;

use super::error::ClusterError;
use super::record::Record;
use super::shown;
use crate::desk::{DeskError, News, Wishes};

#[derive(Clone)]
pub struct Desk {
    record: Arc<Record>,
}

impl Desk {
    pub(super) fn at(record: Arc<Record>) -> Self {
        Self { record }
    }

    /// For graph services.
    pub async fn cluster_id(&self) -> Result<String, ClusterError> {
        self.record.cluster_id().await
    }
}

/// To the second, as Kubernetes writes it.
fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string()
}

impl crate::desk::Desk for Desk {
    async fn books(&self) -> Result<Books, DeskError> {
        match self.record.read().await?.status.books {
            Some(books) => Ok(serde_json::from_value(books).map_err(ClusterError::Books)?),
            None => Ok(Books::default()),
        }
    }

    async fn keep(&self, books: &Books) -> Result<(), DeskError> {
        let written = serde_json::to_value(books).map_err(ClusterError::Books)?;
        let now = now();
        let kept = self.record.write(|status, _| {
            status.books = Some(written.clone());
            shown::history(status, books, &now);
        });
        Ok(kept.await?)
    }

    async fn wishes(&self) -> Result<Wishes, DeskError> {
        Ok(self.record.read().await?.spec.wishes())
    }

    async fn changed(&self) {
        self.record.changed().await;
    }

    async fn show(&self, books: &Books, news: &News) {
        let now = now();
        let shown = self.record.write(|status, before| {
            status.observed_generation = before.metadata.generation.unwrap_or_default();
            shown::history(status, books, &now);
            shown::news(status, books, news, &now);
        });
        if let Err(error) = shown.await {
            tracing::debug!(cause = %error, "news can't be shown");
        }
    }
}
