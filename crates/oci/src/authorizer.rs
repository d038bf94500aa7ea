//! Access to one repository for those who ask with a client of their own, because they need more than whole blobs.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use tokio::sync::OnceCell;

use crate::address::host_of;
use crate::auth::{self, Challenge, Credential};
use crate::error::FetchError;
use crate::http::Access;

/// Answers what a registry asks for. What it answers belongs to this registry and must not be sent to another host.
pub struct Authorizer {
    base: Url,
    repository: String,
    access: Access,
    credential: OnceCell<Option<Credential>>,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("repository", &self.repository).finish_non_exhaustive()
    }
}

impl Authorizer {
    pub fn new(base: Url, repository: String, access: Access) -> Self {
        Self { base, repository, access, credential: OnceCell::new() }
    }

    /// Where a token would be asked for, by the answer that wants one: the caller decides whether to go there.
    pub fn token_address(&self, headers: &HeaderMap) -> Option<Url> {
        match challenge(headers)? {
            Challenge::Bearer { realm, .. } => Url::parse(&realm).ok(),
            Challenge::Basic => None,
        }
    }

    /// The `Authorization` header that a refused request lacked.
    pub async fn answer(
        &self,
        http: &reqwest::Client,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, FetchError> {
        let denied = |why: &str| FetchError::Denied { host: host_of(&self.base), why: why.to_owned() };
        let challenge =
            challenge(headers).ok_or_else(|| denied("it asks for credentials in an unknown way"))?;
        let credential = self.credential.get_or_try_init(|| self.look_up()).await?;
        let answer =
            auth::answer(http, &self.base, &self.repository, &challenge, credential.as_ref()).await?;
        let answer =
            answer.ok_or_else(|| denied("it asks for a user and a password, and there are none for it"))?;
        let mut header = HeaderValue::from_str(&answer).map_err(|_| denied("the token cannot be sent"))?;
        header.set_sensitive(true);
        Ok(header)
    }

    async fn look_up(&self) -> Result<Option<Credential>, FetchError> {
        let (host, access) = (host_of(&self.base), self.access.clone());
        let lookup = tokio::task::spawn_blocking(move || auth::credential(&host, &access));
        lookup.await.unwrap_or(Err(FetchError::Interrupted))
    }
}

fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let headers = headers.get_all(WWW_AUTHENTICATE).iter();
    headers.filter_map(|header| header.to_str().ok()).find_map(Challenge::parse)
}
