//! Objects as they are shown, and requests as they are read.

use axum::Json;
use axum::body::Bytes;
use axum::extract::FromRequest;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue};
use serde::de::DeserializeOwned;
use serde_json::Value;
use store::{Kind, Stored};

use super::super::kinds::API_VERSION;
use super::failure::{Failure, Reason};

/// An object with its version of the API and its kind.
pub(super) fn shown(kind: &str, document: &Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("apiVersion".to_owned(), API_VERSION.into());
    object.insert("kind".to_owned(), kind.into());
    if let Value::Object(fields) = document {
        object.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    Value::Object(object)
}

pub(super) fn typed<K: Kind>(object: &K::Object) -> Result<Json<Value>, Failure> {
    let document =
        serde_json::to_value(object).map_err(|error| Failure::new(Reason::Internal, error.to_string()))?;
    Ok(Json(shown(K::NAME, &document)))
}

/// Written at once, as one text: a thousand objects are not copied first.
pub(super) fn list(kind: &str, items: &[Stored], version: &str) -> Response {
    let mut text = Vec::with_capacity(256 + items.len() * 1024);
    let begin = format!(
        "{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"{kind}List\",\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":["
    );
    text.extend_from_slice(begin.as_bytes());
    let head = format!("{{\"apiVersion\":\"{API_VERSION}\",\"kind\":\"{kind}\",");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(b',');
        }
        text.extend_from_slice(head.as_bytes());
        let mut rest = Inner(&mut text, true);
        // Writing to memory can't fail, and every document is an object.
        let _ = serde_json::to_writer(&mut rest, &*item.document);
    }
    text.extend_from_slice(b"]}");
    let mut response = Bytes::from(text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What is written, without its first byte: the brace that another object's beginning stands for.
struct Inner<'a>(&'a mut Vec<u8>, bool);

impl std::io::Write for Inner<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let skip = usize::from(std::mem::take(&mut self.1) && !bytes.is_empty());
        self.0.extend_from_slice(&bytes[skip..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A JSON body, with an error that says what is wrong with it.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let reason = match rejection.status() {
                http::StatusCode::PAYLOAD_TOO_LARGE => Reason::TooLarge,
                _ => Reason::Invalid,
            };
            Failure::new(reason, rejection.body_text())
        })?;
        serde_json::from_slice(&bytes).map(Body).map_err(|error| {
            Failure::new(Reason::Invalid, format!("the body is not what was expected: {error}"))
                .hint("GET /v1/openapi describes it")
        })
    }
}
