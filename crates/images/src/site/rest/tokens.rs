//! Tokens: make, look, take away. A secret is shown once, when it is made.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use store::Version;

use super::super::kinds::{API_VERSION, Grant, TokenObject};
use super::super::state::{Shared, now};
use super::super::tokens;
use super::answer::Body;
use super::failure::{Failure, Reason};

const MOST_SECONDS: u64 = 10 * 365 * 86_400;
const LONGEST_DESCRIPTION: usize = 200;
const MOST_TOKENS: usize = 10_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Create {
    role: Grant,
    #[serde(default)]
    description: String,
    #[serde(default)]
    ttl_seconds: Option<u64>,
}

/// Without its hash.
fn shown(token: &TokenObject) -> Value {
    let spec = &token.spec;
    json!({
        "apiVersion": API_VERSION,
        "kind": "Token",
        "metadata": {"name": token.metadata.name, "creationTimestamp": token.metadata.creation_timestamp},
        "spec": {"role": spec.role, "description": spec.description, "expires": spec.expires},
    })
}

pub(super) async fn index(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failure> {
    let list = shared.tokens.list().await?;
    let items: Vec<_> = list.items.iter().map(shown).collect();
    let metadata = json!({"resourceVersion": list.version.0});
    Ok(Json(json!({"apiVersion": API_VERSION, "kind": "TokenList", "metadata": metadata, "items": items})))
}

pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Body(request): Body<Create>,
) -> Result<Response, Failure> {
    let invalid = |text: String| Err(Failure::new(Reason::Invalid, text));
    if request.description.len() > LONGEST_DESCRIPTION {
        return invalid(format!("a description has at most {LONGEST_DESCRIPTION} bytes"));
    }
    if request.ttl_seconds.is_some_and(|seconds| seconds == 0 || seconds > MOST_SECONDS) {
        return invalid(format!("ttlSeconds is from 1 to {MOST_SECONDS}"));
    }
    if shared.tokens.list().await?.items.len() >= MOST_TOKENS {
        return Err(Failure::new(Reason::Refused, format!("there are {MOST_TOKENS} tokens already"))
            .hint("remove some: holdfast image token rm"));
    }
    let expires = request.ttl_seconds.map(|seconds| now() + seconds * 1000);
    let (token, object) = tokens::create(&shared, request.role, request.description, expires).await?;
    let mut body = shown(&object);
    body["token"] = token.to_string().into();
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Failure> {
    let token = shared.tokens.get(&id).await?.ok_or_else(|| Failure::missing("token", &id))?;
    let version = Version(token.metadata.resource_version.clone());
    shared.tokens.remove(&id, &version).await?;
    Ok(Json(shown(&token)))
}
