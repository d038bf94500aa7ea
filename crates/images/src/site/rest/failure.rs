//! What a request is answered when it can't be done: a `Status` with words and a way out.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::json;

use super::super::kinds::API_VERSION;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::site) enum Reason {
    /// The request itself is wrong.
    Invalid,
    Unauthorized,
    Forbidden,
    NotFound,
    /// Of a path.
    Method,
    Exists,
    /// Somebody else was first.
    Conflict,
    /// A rule speaks against it: it is in use, or the last copy.
    Refused,
    TooLarge,
    /// Of bytes: there are none from there on.
    Range,
    /// Of a watch: list again.
    Gone,
    /// It can be done later.
    Unavailable,
    Internal,
}

impl Reason {
    fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Exists | Self::Conflict | Self::Refused => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Range => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Gone => StatusCode::GONE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Invalid => "Invalid",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::Method => "MethodNotAllowed",
            Self::Exists => "AlreadyExists",
            Self::Conflict => "Conflict",
            Self::Refused => "Refused",
            Self::TooLarge => "TooLarge",
            Self::Range => "OutOfRange",
            Self::Gone => "Expired",
            Self::Unavailable => "Unavailable",
            Self::Internal => "InternalError",
        }
    }
}

#[derive(Debug, Clone)]
pub(in crate::site) struct Failure {
    reason: Reason,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), hint: None }
    }

    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub fn missing(kind: &str, name: &str) -> Self {
        let name: String = name.chars().take(100).collect();
        let missing = Self::new(Reason::NotFound, format!("there is no {kind} {name:?}"));
        match kind {
            "image" => missing.hint("holdfast image ls lists those that there are"),
            "volume" => missing.hint("holdfast volume ls lists those that there are"),
            "disk" => missing.hint("holdfast image disks lists those of the site"),
            "token" => missing.hint("holdfast image token ls lists those that there are"),
            _ => missing,
        }
    }

    /// Whether it may be different in a moment.
    pub fn is_passing(&self) -> bool {
        self.reason == Reason::Unavailable
    }

    pub fn body(&self) -> serde_json::Value {
        let mut body = json!({
            "apiVersion": API_VERSION,
            "kind": "Status",
            "status": "Failure",
            "code": self.reason.status().as_u16(),
            "reason": self.reason.name(),
            "message": self.message,
        });
        if let Some(hint) = &self.hint {
            body["hint"] = hint.as_str().into();
        }
        body
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if self.reason == Reason::Internal {
            tracing::error!(message = %self.message, "a request failed");
        }
        let mut response = (self.reason.status(), Json(self.body())).into_response();
        match self.reason {
            Reason::Unauthorized => {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Reason::Unavailable => {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("2"));
            }
            _ => {}
        }
        response
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        use store::Error as E;
        let reason = match &error {
            E::NotFound { .. } => Reason::NotFound,
            E::Exists { .. } => Reason::Exists,
            E::Conflict { .. } => Reason::Conflict,
            E::TooOld(_) => Reason::Gone,
            E::TooLarge { .. } => Reason::TooLarge,
            E::TooMany { .. } => Reason::Refused,
            E::Shape { .. } => Reason::Invalid,
            E::Write(_) | E::Closed => Reason::Unavailable,
            E::Type { .. } => Reason::Internal,
        };
        let failure = Self::new(reason, error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// What a manager said.
impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        use tonic::Code;
        let reason = match status.code() {
            Code::InvalidArgument => Reason::Invalid,
            Code::OutOfRange => Reason::Range,
            Code::NotFound => Reason::NotFound,
            Code::AlreadyExists => Reason::Exists,
            Code::Aborted => Reason::Conflict,
            Code::FailedPrecondition | Code::PermissionDenied | Code::Unimplemented => Reason::Refused,
            Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled => {
                Reason::Unavailable
            }
            _ => Reason::Internal,
        };
        Self::new(reason, format!("the manager says: {}", status.message()))
    }
}
