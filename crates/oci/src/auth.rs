//! How a registry is told who asks: credentials from a docker `config.json`, sent as they are or exchanged for a token.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use base64::Engine as _;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use reqwest::Url;
use serde::Deserialize;

use crate::error::FetchError;
use crate::http::{Access, body};

/// Tokens are a few kilobytes at most.
const TOKEN_LIMIT: u64 = 1 << 20;

#[derive(Clone)]
pub(crate) enum Credential {
    Password {
        user: String,
        password: String,
    },
    /// Exchanged for a token.
    Identity(String),
}

/// What `config.json` holds for a host, if anything. May run a credential helper, so not for the runtime's threads.
pub(crate) fn credential(host: &str, access: &Access) -> Result<Option<Credential>, FetchError> {
    let failed = |why: String| FetchError::Access { host: host.to_owned(), why };
    let path = match &access.credentials {
        Some(path) => path.clone(),
        None => match own_config() {
            Some(path) if path.exists() => path,
            _ => return Ok(None),
        },
    };
    let bad = |why: &dyn std::fmt::Display| failed(format!("the credentials in {}: {why}", path.display()));
    let file = File::open(&path).map_err(|error| bad(&error))?;
    match docker_credential::get_credential_from_reader(BufReader::new(file), host) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(Some(Credential::Password { user, password }))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Credential::Identity(token))),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
        // What a helper printed may hold secrets.
        Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
            Err(bad(&format!("the helper {helper:?} failed")))
        }
        Err(error) => Err(bad(&error)),
    }
}

fn own_config() -> Option<PathBuf> {
    let directory = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker"));
    Some(directory.or_else(home)?.join("config.json"))
}

/// What a registry asks for in `WWW-Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

impl Challenge {
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let value =
            |name: &str| parameters(rest).find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v);
        Some(Self::Bearer { realm: value("realm")?, service: value("service"), scope: value("scope") })
    }
}

/// `a="b",c=d` with commas allowed in quotes.
fn parameters(mut rest: &str) -> impl Iterator<Item = (&str, String)> {
    std::iter::from_fn(move || {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim_matches([' ', ',']);
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        rest = after;
        Some((key, value.trim().to_owned()))
    })
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

/// The `Authorization` header that answers a challenge. `None`: there is nothing to answer with.
pub(crate) async fn answer(
    http: &reqwest::Client,
    registry: &Url,
    repository: &str,
    challenge: &Challenge,
    credential: Option<&Credential>,
) -> Result<Option<String>, FetchError> {
    let (realm, service, scope) = match (challenge, credential) {
        (Challenge::Basic, Some(Credential::Password { user, password })) => {
            return Ok(Some(basic(user, password)));
        }
        (Challenge::Basic, _) => return Ok(None),
        (Challenge::Bearer { realm, service, scope }, _) => (realm, service, scope),
    };
    let host = registry.host_str().unwrap_or_default().to_owned();
    let denied = |why: String| FetchError::Denied { host: host.clone(), why };
    let mut url =
        Url::parse(realm).map_err(|error| denied(format!("its token address {realm:?}: {error}")))?;
    if credential.is_some() && registry.scheme() == "https" && url.scheme() != "https" {
        return Err(denied(format!("its token address {realm:?} would take the password unencrypted")));
    }
    let scope = scope.clone().unwrap_or_else(|| format!("repository:{repository}:pull"));
    let mut fields = vec![("scope", scope.as_str())];
    if let Some(service) = service {
        fields.push(("service", service));
    }
    let request = match credential {
        Some(Credential::Identity(token)) => {
            fields.extend([
                ("grant_type", "refresh_token"),
                ("refresh_token", token),
                ("client_id", "holdfast"),
            ]);
            let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            http.post(url).header("content-type", "application/x-www-form-urlencoded").body(form)
        }
        credential => {
            url.query_pairs_mut().extend_pairs(fields);
            match credential {
                Some(Credential::Password { user, password }) => {
                    http.get(url).basic_auth(user, Some(password))
                }
                _ => http.get(url),
            }
        }
    };
    let what = format!("a token for {host}");
    let response =
        request.send().await.map_err(|source| FetchError::Request { what: what.clone(), source })?;
    match response.status().as_u16() {
        200..=299 => {}
        status @ (401 | 403) => {
            return Err(denied(match credential {
                Some(_) => format!("the credentials are refused (status {status})"),
                None => format!("it gives no token without credentials (status {status})"),
            }));
        }
        status => {
            return Err(FetchError::Status { what, status, detail: String::new(), retry_after: None });
        }
    }
    let bytes = body(response, &what, TOKEN_LIMIT).await?;
    let nonsense = |why: String| FetchError::Nonsense { what: what.clone(), why };
    let answer: TokenAnswer = serde_json::from_slice(&bytes).map_err(|error| nonsense(error.to_string()))?;
    let token =
        answer.token.or(answer.access_token).ok_or_else(|| nonsense("there is none in it".to_owned()))?;
    Ok(Some(format!("Bearer {token}")))
}

fn basic(user: &str, password: &str) -> String {
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    format!("Basic {encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        let bearer = r#"Bearer realm="https://a/token",service="b",scope="repository:c:pull,push",error="x""#;
        assert_eq!(
            Challenge::parse(bearer),
            Some(Challenge::Bearer {
                realm: "https://a/token".into(),
                service: Some("b".into()),
                scope: Some("repository:c:pull,push".into()),
            })
        );
        let plain = Challenge::parse("bearer realm=https://a/token, service=b");
        assert!(matches!(plain, Some(Challenge::Bearer { service: Some(service), .. }) if service == "b"));
        for text in ["", "Digest realm=\"x\"", "Bearer service=\"x\"", "Bearer realm=\"x"] {
            assert_eq!(Challenge::parse(text), None, "{text}");
        }
    }
}
