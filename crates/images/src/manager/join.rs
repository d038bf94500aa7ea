//! Becoming a member of a site, and staying one: a certificate for a token, registering again and again, and the next
//! certificate before this one ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use logic::images::{DiskId, NodeName};
use reqwest::{Client, Response};
use rustls::ClientConfig;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use wire::site;

use super::error::Error;
use crate::identity::{Identity, Pinned, Request, Role, Token, client_config};

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(20);
/// No answer of the site to a manager is longer.
const ANSWER_BYTES: usize = 256 << 10;
/// Between tries, while the site is away.
const AGAIN: Duration = Duration::from_secs(5);
/// However seldom the site wants to hear of it.
const SELDOM: Duration = Duration::from_secs(300);
const HTTP1: &[u8] = b"http/1.1";

/// The site that a manager is of.
#[derive(Debug, Clone)]
pub struct Join {
    /// `https://HOST:PORT`
    pub url: String,
    /// Needed once.
    pub token: Option<Token>,
}

impl Join {
    fn address(&self, path: &str) -> Result<String, Error> {
        let url = self.url.trim_end_matches('/');
        match url.strip_prefix("https://") {
            Some(host) if !host.is_empty() && !host.contains('/') => Ok(format!("{url}{path}")),
            _ => Err(Error::Url(self.url.chars().take(200).collect())),
        }
    }

    /// The identity that is kept in the directory, or one for the token.
    pub async fn identity(&self, dir: &Path, disk: &DiskId, node: &NodeName) -> Result<Identity, Error> {
        if let Some(identity) = Identity::load(dir)? {
            let mine = *identity.role() == Role::Manager(disk.clone());
            if mine && SystemTime::now() < identity.ends() {
                return Ok(identity);
            }
            if !mine && self.token.is_none() {
                let (path, role) = (dir.to_owned(), identity.role().to_string());
                return Err(Error::OtherDisk { path, role, disk: disk.clone() });
            }
        }
        let Some(token) = &self.token else { return Err(Error::NoIdentity { path: dir.to_owned() }) };
        let tls = Pinned(token.fingerprint).client_config(&[HTTP1])?;
        let identity = self.ask(&client(tls)?, Some(token), dir, disk, node).await?;
        if identity.fingerprint() != token.fingerprint {
            return Err(Error::Refused {
                message: "it sent the certificate of another authority".to_owned(),
                hint: "see that the token is of this site".to_owned(),
            });
        }
        Ok(identity)
    }

    async fn ask(
        &self,
        client: &Client,
        token: Option<&Token>,
        dir: &Path,
        disk: &DiskId,
        node: &NodeName,
    ) -> Result<Identity, Error> {
        let request = Request::new()?;
        let body = site::Join { disk: disk.clone(), node: node.clone(), request: request.pem().to_owned() };
        let joined: site::Joined = self.post(client, "/v1/join", token, &body).await?;
        let identity = request.granted(&joined.certificate, &joined.authority)?;
        if *identity.role() != Role::Manager(disk.clone()) {
            let (path, role) = (dir.to_owned(), identity.role().to_string());
            return Err(Error::OtherDisk { path, role, disk: disk.clone() });
        }
        identity.save(dir)?;
        Ok(identity)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        client: &Client,
        path: &str,
        token: Option<&Token>,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let mut request = client.post(self.address(path)?).json(body);
        if let Some(token) = token {
            request = request.bearer_auth(token.to_string());
        }
        let failed =
            |source: reqwest::Error| Error::Site { url: self.url.clone(), source: source.without_url() };
        let answer = request.send().await.map_err(failed)?;
        if answer.status().is_success() {
            let bytes = limited(answer).await?;
            return serde_json::from_slice(&bytes).map_err(|_| Error::Refused {
                message: "its answer can't be understood".to_owned(),
                hint: "see that it is the address of `holdfast image serve`, of this version".to_owned(),
            });
        }
        let status = answer.status();
        let told: site::Status = serde_json::from_slice(&limited(answer).await?).unwrap_or_default();
        let message = if told.message.is_empty() { status.to_string() } else { told.message };
        Err(Error::Refused { message, hint: told.hint })
    }

    /// Registers again and again, and renews the certificate. Ends when the site has no use for this manager.
    pub async fn stay(
        self,
        dir: PathBuf,
        me: site::Register,
        identity: watch::Sender<Arc<Identity>>,
        is_empty: impl Fn() -> bool,
    ) {
        let mut told = false;
        loop {
            let now = Arc::clone(&identity.borrow());
            if SystemTime::now() >= now.renew_at() {
                match self.renew(&dir, &now, &me).await {
                    Ok(next) => drop(identity.send_replace(Arc::new(next))),
                    Err(error) => {
                        tracing::warn!(cause = %super::error::in_words(&error, None), "the certificate can't be renewed");
                    }
                }
            }
            let registered = self.register(&now, &me).await;
            let after = match registered {
                Ok(registered) => {
                    if !registered.wanted && is_empty() {
                        tracing::info!("the site has no use for this manager any more");
                        return;
                    }
                    if !told {
                        tracing::info!(site = self.url, "registered");
                    }
                    told = true;
                    Duration::from_secs(registered.again_after.max(1)).min(SELDOM)
                }
                Err(error) => {
                    tracing::warn!(
                        cause = %super::error::in_words(&error, Some(error.hint())),
                        "can't register with the site"
                    );
                    told = false;
                    AGAIN
                }
            };
            tokio::time::sleep(after).await;
        }
    }

    async fn register(&self, identity: &Identity, me: &site::Register) -> Result<site::Registered, Error> {
        let tls = client_config(identity, &Role::Controller, &[HTTP1])?;
        self.post(&client(tls)?, "/v1/register", None, me).await
    }

    async fn renew(&self, dir: &Path, identity: &Identity, me: &site::Register) -> Result<Identity, Error> {
        let tls = client_config(identity, &Role::Controller, &[HTTP1])?;
        self.ask(&client(tls)?, None, dir, &me.disk, &me.node).await
    }
}

fn client(tls: ClientConfig) -> Result<Client, Error> {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT)
        .timeout(ANSWER)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|source| Error::Answer { source })
}

async fn limited(mut answer: Response) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(|source| Error::Answer { source })? {
        bytes.extend_from_slice(&part);
        if bytes.len() > ANSWER_BYTES {
            return Err(Error::Refused {
                message: format!("it answered more than {ANSWER_BYTES} bytes"),
                hint: "see that it is the address of `holdfast image serve`".to_owned(),
            });
        }
    }
    Ok(bytes)
}
