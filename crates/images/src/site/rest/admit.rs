//! Who asks, and whether they may.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;
use http::{Method, request::Parts};

use super::super::kinds::Grant;
use super::super::state::Shared;
use super::super::tokens::{Refused, check};
use super::failure::{Failure, Reason};
use crate::identity::Role;

/// How a connection came in; put to each of its requests.
#[derive(Debug, Clone)]
pub(in crate::site) struct Speech {
    /// The caller's certificate, where it showed one.
    pub role: Option<Role>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::site) enum Caller {
    Nobody,
    Token(Grant),
    Member(Role),
}

/// Paths that need no token.
const OPEN: [&str; 2] = ["/v1/openapi", "/v1/version"];

pub(super) async fn admit(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Failure> {
    shared.metrics.requests.add();
    let (mut parts, body) = request.into_parts();
    let caller = caller(&shared, &parts).await;
    let allowed = caller.and_then(|caller| may(&caller, &parts.method, parts.uri.path()).map(|()| caller));
    let caller = match allowed {
        Ok(caller) => caller,
        Err(failure) => {
            shared.metrics.requests_refused.add();
            return Err(failure);
        }
    };
    parts.extensions.insert(caller);
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn caller(shared: &Shared, parts: &Parts) -> Result<Caller, Failure> {
    if let Some(role) = parts.extensions.get::<Speech>().and_then(|speech| speech.role.clone()) {
        return Ok(Caller::Member(role));
    }
    let Some(header) = parts.headers.get(AUTHORIZATION) else { return Ok(Caller::Nobody) };
    let refused = |text: &str, hint: &str| Err(Failure::new(Reason::Unauthorized, text).hint(hint));
    let again = "ask for a new one: holdfast image token create";
    let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let Some(token) = token else {
        return refused(
            "the authorization is not a bearer token",
            "send the header Authorization: Bearer hft_…",
        );
    };
    match check(shared, token).await {
        Ok(grant) => Ok(Caller::Token(grant)),
        Err(Refused::NotAToken) => {
            refused("that is not a token", "copy the whole of it: hft_ID_SECRET_FINGERPRINT")
        }
        Err(Refused::OtherSite) => refused("the token is of another site", again),
        Err(Refused::Unknown) => refused("the token is not known here, or was removed", again),
        Err(Refused::Expired) => refused("the token has expired", again),
    }
}

fn may(caller: &Caller, method: &Method, path: &str) -> Result<(), Failure> {
    if OPEN.contains(&path) {
        return Ok(());
    }
    let looks = *method == Method::GET || *method == Method::HEAD;
    let forbidden = |text: &str, hint: &str| Err(Failure::new(Reason::Forbidden, text).hint(hint));
    match caller {
        Caller::Nobody => Err(Failure::new(Reason::Unauthorized, "a token is needed")
            .hint("set HOLDFAST_TOKEN, or read it from admin.token beside the site's state")),
        Caller::Token(Grant::Admin) if path == "/v1/register" => {
            forbidden("only managers register", "start a manager with --join and a token")
        }
        Caller::Token(Grant::Admin) => Ok(()),
        Caller::Token(Grant::Join) if path == "/v1/join" => Ok(()),
        Caller::Token(Grant::Join) => {
            forbidden("this token is for joining only", "use a token of role admin or reader")
        }
        Caller::Token(Grant::Reader) if looks && !path.starts_with("/v1/tokens") => Ok(()),
        Caller::Token(Grant::Reader) => {
            forbidden("this token is for looking only", "use a token of role admin")
        }
        Caller::Member(Role::Manager(_)) if path == "/v1/register" || path == "/v1/join" => Ok(()),
        Caller::Member(Role::Controller) => Ok(()),
        Caller::Member(Role::Manager(_)) => {
            forbidden("managers may register here, and renew their certificate", "use a token")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_do_what_they_are_for_and_nothing_else() {
        let disk = logic::images::DiskId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").expect("a uuid");
        let (admin, reader, join) = (Grant::Admin, Grant::Reader, Grant::Join);
        let manager = Caller::Member(Role::Manager(disk));
        let of = Caller::Token;
        for (caller, method, path, good) in [
            (Caller::Nobody, Method::GET, "/v1/images", false),
            (Caller::Nobody, Method::GET, "/v1/openapi", true),
            (Caller::Nobody, Method::POST, "/v1/join", false),
            (of(admin), Method::DELETE, "/v1/images/a", true),
            (of(admin), Method::POST, "/v1/register", false),
            (of(reader), Method::GET, "/v1/images", true),
            (of(reader), Method::GET, "/v1/tokens", false),
            (of(reader), Method::DELETE, "/v1/images/a", false),
            (of(join), Method::POST, "/v1/join", true),
            (of(join), Method::GET, "/v1/images", false),
            (manager.clone(), Method::POST, "/v1/register", true),
            (manager.clone(), Method::POST, "/v1/join", true),
            (manager, Method::GET, "/v1/images", false),
            (Caller::Member(Role::Controller), Method::GET, "/v1/images", true),
        ] {
            assert_eq!(may(&caller, &method, path).is_ok(), good, "{caller:?} {method} {path}");
        }
    }
}
