//! Watching: JSON lines, one for each change, until somebody has enough.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};
use store::{Action, Kind, Version, Watch};

use super::super::kinds::API_VERSION;
use super::super::state::Shared;
use super::answer::{list, shown};
use super::failure::Failure;

/// How often a line comes when nothing happens, so that both sides know that the other is there.
const BOOKMARKS: Duration = Duration::from_secs(15);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListQuery {
    #[serde(default)]
    pub watch: bool,
    #[serde(default)]
    pub resource_version: Option<String>,
}

pub(super) async fn list_or_watch<K: Kind>(
    shared: &Arc<Shared>,
    query: &ListQuery,
    name: Option<&str>,
) -> Result<Response, Failure> {
    let mut waiting = VecDeque::new();
    let from = match &query.resource_version {
        Some(version) if query.watch => Version(version.clone()),
        _ => {
            let found = shared.store.list(K::NAME).await?;
            if !query.watch {
                return Ok(list(K::NAME, &found.items, &found.version.0));
            }
            for item in found.items.iter().filter(|item| name.is_none_or(|name| item.name == name)) {
                waiting.push_back(line("ADDED", shown(K::NAME, &item.document)));
            }
            found.version
        }
    };
    let watch = shared.store.watch(K::NAME, &from)?;
    let following =
        Following { watch, waiting, name: name.map(str::to_owned), kind: K::NAME, seen: from, over: false };
    let lines = stream::unfold(following, |mut following| async move {
        let next = following.next().await?;
        Some((Ok::<_, std::convert::Infallible>(next), following))
    });
    let mut response = Body::from_stream(lines).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/jsonl"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

struct Following {
    watch: Box<dyn Watch>,
    waiting: VecDeque<Bytes>,
    name: Option<String>,
    kind: &'static str,
    seen: Version,
    over: bool,
}

impl Following {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        if let Some(line) = self.waiting.pop_front() {
            return Some(line);
        }
        loop {
            match tokio::time::timeout(BOOKMARKS, self.watch.next()).await {
                Err(_) => {
                    let metadata = json!({"resourceVersion": self.seen.0});
                    let object = json!({"apiVersion": API_VERSION, "kind": self.kind, "metadata": metadata});
                    return Some(line("BOOKMARK", object));
                }
                Ok(Ok(event)) => {
                    self.seen = event.object.version.clone();
                    if self.name.as_ref().is_some_and(|name| *name != event.object.name) {
                        continue;
                    }
                    let action = match event.action {
                        Action::Added => "ADDED",
                        Action::Modified => "MODIFIED",
                        Action::Removed => "DELETED",
                    };
                    return Some(line(action, shown(self.kind, &event.object.document)));
                }
                Ok(Err(error)) => {
                    self.over = true;
                    return Some(line("ERROR", Failure::from(error).body()));
                }
            }
        }
    }
}

fn line(action: &str, object: Value) -> Bytes {
    let mut text = json!({"type": action, "object": object}).to_string();
    text.push('\n');
    Bytes::from(text)
}
