//! A kubeconfig file: which server, which certificates, who we are. Pure; the files it names are read later.

use std::path::{Path, PathBuf};

use base64::Engine;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    #[error("the kubeconfig can't be read: {what}")]
    Parse { what: String },
    #[error("the kubeconfig has no {what} {name:?}")]
    Missing { what: &'static str, name: String },
    #[error("the kubeconfig's {field} is not base64")]
    Base64 { field: &'static str },
    #[error("the kubeconfig uses {what}, which this check does not do")]
    Unsupported { what: &'static str },
    #[error("the kubeconfig's server {server:?} is not an http or https URL")]
    Server { server: String },
}

impl KubeconfigError {
    /// A file that is being written can be better in a moment; one that asks for the impossible can't.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => {
                "name a kubeconfig with a client certificate, token or tokenFile and a certificate-authority"
            }
            _ => {
                "see that the file is the kubeconfig of this cluster, and name the context if it has several"
            }
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Kubeconfig {
    current_context: Option<String>,
    contexts: Vec<NamedContext>,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Debug, Clone, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Clone, Deserialize)]
struct Context {
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Debug, Clone, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    #[serde(default)]
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct User {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    exec: Option<serde::de::IgnoredAny>,
    auth_provider: Option<serde::de::IgnoredAny>,
}

/// Bytes that stand in the kubeconfig itself or in a file that it names.
#[derive(Clone, PartialEq, Eq)]
pub enum Held {
    Inline(Vec<u8>),
    File(PathBuf),
}

/// Keys and tokens are not for logs.
impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(bytes) => write!(f, "Inline({} bytes)", bytes.len()),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

/// Who we are: any of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Certificate and key.
    pub client: Option<(Held, Held)>,
    pub token: Option<Held>,
}

/// All that is needed to talk to the API of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Without a slash at its end.
    pub server: String,
    /// `None`: the system's certificates.
    pub ca: Option<Held>,
    pub identity: Identity,
}

impl Kubeconfig {
    pub fn parse(text: &str) -> Result<Self, KubeconfigError> {
        serde_saphyr::from_str(text).map_err(|error| {
            // Only its first line: the others show a piece of the file, which may be a key.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            KubeconfigError::Parse { what: first.trim_start_matches("error: ").to_owned() }
        })
    }

    /// What a context (the current one, if none is named) leads to. Relative paths are relative to `dir`, the
    /// directory of the kubeconfig.
    pub fn access(&self, context: Option<&str>, dir: &Path) -> Result<Access, KubeconfigError> {
        let wanted = context.or(self.current_context.as_deref()).unwrap_or_default();
        let missing = |what, name: &str| KubeconfigError::Missing { what, name: name.to_owned() };
        let context = self.contexts.iter().find(|named| named.name == wanted);
        let context = &context.ok_or_else(|| missing("context", wanted))?.context;
        let cluster = self.clusters.iter().find(|named| named.name == context.cluster);
        let cluster = &cluster.ok_or_else(|| missing("cluster", &context.cluster))?.cluster;
        let user = match context.user.as_str() {
            "" => User::default(),
            name => {
                let user = self.users.iter().find(|named| named.name == name);
                user.ok_or_else(|| missing("user", name))?.user.clone().unwrap_or_default()
            }
        };
        Ok(Access { server: server(cluster)?, ca: ca(cluster, dir)?, identity: identity(user, dir)? })
    }
}

fn server(cluster: &Cluster) -> Result<String, KubeconfigError> {
    let unsupported = |what| Err(KubeconfigError::Unsupported { what });
    if cluster.insecure_skip_tls_verify {
        return unsupported("insecure-skip-tls-verify");
    }
    if cluster.tls_server_name.is_some() {
        return unsupported("tls-server-name");
    }
    if cluster.proxy_url.is_some() {
        return unsupported("proxy-url");
    }
    let server = cluster.server.trim_end_matches('/').to_owned();
    match reqwest::Url::parse(&server) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(server),
        _ => Err(KubeconfigError::Server { server }),
    }
}

fn ca(cluster: &Cluster, dir: &Path) -> Result<Option<Held>, KubeconfigError> {
    let data = cluster.certificate_authority_data.as_deref();
    held(data, "certificate-authority-data", cluster.certificate_authority.as_deref(), dir)
}

fn identity(user: User, dir: &Path) -> Result<Identity, KubeconfigError> {
    let unsupported = |what| Err(KubeconfigError::Unsupported { what });
    if user.exec.is_some() {
        return unsupported("an exec plugin");
    }
    if user.auth_provider.is_some() {
        return unsupported("an auth-provider");
    }
    if user.username.is_some() {
        return unsupported("a user name and password");
    }
    let certificate = user.client_certificate_data.as_deref();
    let certificate = held(certificate, "client-certificate-data", user.client_certificate.as_deref(), dir)?;
    let key = held(user.client_key_data.as_deref(), "client-key-data", user.client_key.as_deref(), dir)?;
    // As for kubectl: the file, which is renewed, before the token that was written down once.
    let token = match (user.token_file, user.token) {
        (Some(path), _) => Some(Held::File(dir.join(path))),
        (None, Some(token)) => Some(Held::Inline(token.into_bytes())),
        (None, None) => None,
    };
    Ok(Identity { client: certificate.zip(key), token })
}

/// As for kubectl: data before file.
fn held(
    data: Option<&str>,
    field: &'static str,
    file: Option<&Path>,
    dir: &Path,
) -> Result<Option<Held>, KubeconfigError> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let packed: String = data.split_ascii_whitespace().collect();
        let bytes = base64::engine::general_purpose::STANDARD.decode(packed);
        return bytes.map(|bytes| Some(Held::Inline(bytes))).map_err(|_| KubeconfigError::Base64 { field });
    }
    Ok(file.filter(|file| !file.as_os_str().is_empty()).map(|file| Held::File(dir.join(file))))
}
