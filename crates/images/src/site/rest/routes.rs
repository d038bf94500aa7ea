//! Which path is answered by what.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router, middleware};
use http::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};

use super::super::kinds::API_VERSION;
use super::super::state::Shared;
use super::failure::{Failure, Reason};
use super::{admit, content, disks, images, tokens, volumes};

const OPENAPI: &str = include_str!("openapi.json");
/// Of a JSON body.
const BODY_BYTES: usize = 1 << 20;

pub(in crate::site) fn router(shared: Arc<Shared>) -> Router {
    let bytes = Router::new()
        .route("/v1/images/{name}/content", get(content::download).put(content::upload))
        .route("/v1/volumes/{name}/content", get(content::backup).merge(put(content::restore)))
        // These are passed on piece by piece, and limited by the managers.
        .layer(DefaultBodyLimit::disable());
    Router::new()
        .route("/v1/images", get(images::index).post(images::create))
        .route("/v1/images/{name}", get(images::show).delete(images::remove))
        .route("/v1/images/{name}/cleanup", post(images::cleanup))
        .route("/v1/images/{name}/spread", post(images::spread))
        .route("/v1/disks", get(disks::index))
        .route("/v1/disks/{uuid}", get(disks::show).delete(disks::remove))
        .route("/v1/managers", get(disks::managers))
        .route("/v1/managers/{name}", get(disks::manager))
        .route("/v1/volumes", get(volumes::index).post(volumes::create))
        .route("/v1/volumes/{name}", get(volumes::show).delete(volumes::remove))
        .route("/v1/tokens", get(tokens::index).post(tokens::create))
        .route("/v1/tokens/{id}", delete(tokens::remove))
        .route("/v1/join", post(disks::join))
        .route("/v1/register", post(disks::register))
        .route("/v1/openapi", get(openapi))
        .route("/v1/version", get(version))
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .merge(bytes)
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), admit::admit))
        .with_state(shared)
}

async fn nothing() -> Failure {
    Failure::new(Reason::NotFound, "there is nothing here").hint("GET /v1/openapi lists what there is")
}

async fn other_method() -> Failure {
    Failure::new(Reason::Method, "that can't be done with this").hint("GET /v1/openapi lists what can")
}

async fn openapi() -> Response {
    let mut response = OPENAPI.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn version(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let view = shared.view();
    Json(json!({
        "apiVersion": API_VERSION,
        "kind": "Version",
        "version": view.rules.program.version,
        "fingerprint": shared.authority.fingerprint().to_string(),
        "managerApiVersion": wire::API_VERSION,
        "managerApiMinVersion": wire::API_MIN_VERSION,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every path with its methods, as the router above has them.
    const PATHS: [(&str, &[&str]); 18] = [
        ("/v1/images", &["get", "post"]),
        ("/v1/images/{name}", &["get", "delete"]),
        ("/v1/images/{name}/cleanup", &["post"]),
        ("/v1/images/{name}/spread", &["post"]),
        ("/v1/images/{name}/content", &["get", "put"]),
        ("/v1/disks", &["get"]),
        ("/v1/disks/{uuid}", &["get", "delete"]),
        ("/v1/managers", &["get"]),
        ("/v1/managers/{name}", &["get"]),
        ("/v1/volumes", &["get", "post"]),
        ("/v1/volumes/{name}", &["get", "delete"]),
        ("/v1/volumes/{name}/content", &["get", "put"]),
        ("/v1/tokens", &["get", "post"]),
        ("/v1/tokens/{id}", &["delete"]),
        ("/v1/join", &["post"]),
        ("/v1/register", &["post"]),
        ("/v1/openapi", &["get"]),
        ("/v1/version", &["get"]),
    ];

    #[test]
    fn every_path_is_routed_and_described_with_the_same_methods() {
        let document: Value = serde_json::from_str(OPENAPI).expect("the document is JSON");
        let described = document["paths"].as_object().expect("paths");
        assert_eq!(described.len(), PATHS.len());
        // The source itself, up to here: whoever adds a route is reminded.
        let source = include_str!("routes.rs").split("mod tests").next().unwrap_or_default();
        assert_eq!(source.matches(".route(\"").count(), PATHS.len());
        for (path, methods) in PATHS {
            assert!(source.contains(&format!("\"{path}\"")), "{path} is not routed");
            let there = described.get(path).and_then(Value::as_object).unwrap_or_else(|| panic!("{path}"));
            let mut found: Vec<_> = there.keys().map(String::as_str).collect();
            found.sort_unstable();
            let mut expected = methods.to_vec();
            expected.sort_unstable();
            assert_eq!(found, expected, "{path}");
            for operation in there.values() {
                assert!(
                    operation["summary"].is_string() && operation["responses"]["default"].is_object(),
                    "{path}"
                );
            }
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document: Value = serde_json::from_str(OPENAPI).expect("the document is JSON");
        let mut rest = vec![&document];
        let mut seen = 0;
        while let Some(value) = rest.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                        seen += 1;
                        let pointer = reference.trim_start_matches('#');
                        assert!(document.pointer(pointer).is_some(), "{reference}");
                    }
                    rest.extend(fields.values());
                }
                Value::Array(items) => rest.extend(items),
                _ => {}
            }
        }
        assert!(seen > 20);
    }
}
