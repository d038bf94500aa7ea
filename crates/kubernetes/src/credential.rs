//! By what API servers know this program: where it comes from, never what it is.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use kube::config::AuthInfo;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Such as "the token in /etc/holdfast/storage.kubeconfig".
    name: String,
    /// A new one is taken without starting again.
    renewable: bool,
}

/// A server that has just started, or one that it asks who somebody is, may not know everybody for a moment.
const STARTING: Duration = Duration::from_secs(6);
/// Files with tokens are read again every minute.
const RENEWED: Duration = Duration::from_secs(75);

impl Credential {
    /// Of what there is, the one that is used.
    pub(crate) fn of(auth: &AuthInfo, kubeconfig: Option<&Path>) -> Self {
        let kubeconfig = kubeconfig.map_or("the kubeconfig".to_owned(), |path| path.display().to_string());
        let certificate = auth.client_certificate.is_some() || auth.client_certificate_data.is_some();
        let (name, renewable) = match auth {
            AuthInfo { auth_provider: Some(provider), .. } => {
                (format!("what the provider {} of {kubeconfig} says", provider.name), true)
            }
            AuthInfo { username: Some(_), password: Some(_), .. } => {
                (format!("the password in {kubeconfig}"), false)
            }
            AuthInfo { token: Some(_), .. } => (format!("the token in {kubeconfig}"), false),
            AuthInfo { token_file: Some(file), .. } => (format!("the token in {file}"), true),
            AuthInfo { exec: Some(exec), .. } => {
                let program = exec.command.as_deref().unwrap_or("a program");
                (format!("what {program} of {kubeconfig} says"), true)
            }
            _ if certificate => (format!("the client certificate of {kubeconfig}"), false),
            _ => (format!("{kubeconfig}, which has no credentials"), false),
        };
        Self { name, renewable }
    }

    /// So long it may be refused before nobody but a person can change that.
    pub fn patience(&self) -> Duration {
        if self.renewable { RENEWED } else { STARTING }
    }
}

impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_named_by_where_it_comes_from_and_never_shown() {
        let path = Path::new("/etc/site.kubeconfig");
        let auth = |text: &str| serde_json::from_str::<AuthInfo>(text).unwrap();
        for (text, name, patience) in [
            (r#"{"token": "secret"}"#, "the token in /etc/site.kubeconfig", STARTING),
            (r#"{"tokenFile": "/run/token"}"#, "the token in /run/token", RENEWED),
            // The order in which they are used.
            (
                r#"{"token": "secret", "tokenFile": "/run/token"}"#,
                "the token in /etc/site.kubeconfig",
                STARTING,
            ),
            (r#"{"exec": {"command": "login"}}"#, "what login of /etc/site.kubeconfig says", RENEWED),
            (
                r#"{"client-certificate": "/etc/me.pem"}"#,
                "the client certificate of /etc/site.kubeconfig",
                STARTING,
            ),
            ("{}", "/etc/site.kubeconfig, which has no credentials", STARTING),
        ] {
            let credential = Credential::of(&auth(text), Some(path));
            assert_eq!((credential.to_string().as_str(), credential.patience()), (name, patience));
        }
        let inferred = Credential::of(&auth(r#"{"token": "secret"}"#), None);
        assert_eq!(inferred.to_string(), "the token in the kubeconfig");
    }
}
