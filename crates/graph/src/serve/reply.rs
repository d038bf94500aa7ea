//! Answers that are not graphs: errors as clients expect them, and small documents.

use std::fmt;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Response, StatusCode};

pub type Reply = Response<Full<Bytes>>;

/// How long a client waits that came before the first graph.
const RETRY_SECONDS: u64 = 10;

/// `{"kind":…,"value":…}`.
pub fn failure(status: StatusCode, kind: &str, value: impl fmt::Display) -> Reply {
    let body = serde_json::json!({ "kind": kind, "value": value.to_string() });
    let mut reply = with_type(status, "application/json", body.to_string());
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

pub fn not_ready(reason: &str) -> Reply {
    let mut reply = failure(StatusCode::SERVICE_UNAVAILABLE, "not_ready", reason);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
    reply
}

pub fn not_found(path: &str) -> Reply {
    let path: String = path.chars().take(200).collect();
    failure(StatusCode::NOT_FOUND, "not_found", format_args!("nothing is at {path}"))
}

pub fn method_not_allowed(allowed: &'static str) -> Reply {
    let mut reply =
        failure(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", format_args!("allowed: {allowed}"));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// To a browser that asks whether it may ask.
pub fn preflight(allowed: &'static str) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::NO_CONTENT;
    let headers = reply.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    for (name, value) in [
        ("access-control-allow-methods", allowed),
        ("access-control-allow-headers", "accept, if-none-match"),
        ("access-control-max-age", "86400"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

pub fn with_type(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    reply
}

/// A text in a header: what can't stand there becomes a question mark.
pub fn header_text(text: &str) -> HeaderValue {
    const LONGEST: usize = 200;
    let fits = |letter: char| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' };
    let text: String = text.chars().take(LONGEST).map(fits).collect();
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_with_line_breaks_and_umlauts_fits_into_a_header() {
        assert_eq!(header_text("no\r\nSet-Cookie: ü"), "no??Set-Cookie: ?");
    }
}
