//! Where a source is, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;

use super::registry::host_of;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `registry:https://HOST/REPO` or `registry:http://HOST/REPO`.
    Registry { base: Url, repository: String },
    /// `oci:DIR`.
    Layout(PathBuf),
    /// `graph:FILE`.
    GraphFile(PathBuf),
    /// `graph:URL`.
    GraphUrl(Url),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be used: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

impl AddressError {
    pub(super) fn new(text: &str, why: impl Into<String>) -> Self {
        Self { text: text.chars().take(300).collect(), why: why.into() }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bad = |why: &str| AddressError::new(text, why);
        let Some((kind, rest)) = text.trim().split_once(':') else {
            return Err(bad("it should begin with registry:, oci: or graph:"));
        };
        match kind {
            _ if rest.is_empty() => Err(bad("nothing follows the colon")),
            "registry" => {
                let (base, repository) = registry(rest).map_err(bad)?;
                Ok(Self::Registry { base, repository })
            }
            "oci" => Ok(Self::Layout(rest.into())),
            "graph" if rest.starts_with("http://") || rest.starts_with("https://") => {
                Url::parse(rest).map(Self::GraphUrl).map_err(|error| bad(&error.to_string()))
            }
            "graph" if rest.contains("://") => Err(bad("only http:// and https:// are known")),
            "graph" => Ok(Self::GraphFile(rest.into())),
            "http" | "https" => Err(bad("it should begin with registry: or graph:")),
            _ => Err(bad("it should begin with registry:, oci: or graph:")),
        }
    }
}

/// `https://HOST/REPO`.
pub(super) fn registry(text: &str) -> Result<(Url, String), &'static str> {
    let mut url = Url::parse(text).map_err(|_| "write registry:https://HOST/REPO")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("a registry is reached by https:// or http://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("credentials belong in a docker config.json, not in the address");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a repository's name has no ? and no #");
    }
    let repository = url.path().trim_matches('/').to_owned();
    if repository.is_empty() {
        return Err("the repository is missing: write registry:https://HOST/REPO");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.bytes().all(fits);
    if repository.len() > 255 || !repository.split('/').all(part) {
        return Err("a repository's name has only lower-case letters, digits, and . _ - / between them");
    }
    url.set_path("/");
    Ok((url, repository))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry { base, repository } => {
                write!(f, "registry:{}://{}/{repository}", base.scheme(), host_of(base))
            }
            Self::Layout(directory) => write!(f, "oci:{}", directory.display()),
            Self::GraphFile(path) => write!(f, "graph:{}", path.display()),
            Self::GraphUrl(url) => write!(f, "graph:{url}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_they_were_written() {
        for text in [
            "registry:https://registry.example/a/b-c",
            "registry:http://127.0.0.1:5000/releases",
            "oci:/srv/layout",
            "graph:file.json",
            "graph:https://graph.example/v1/graph?channel=x",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        for (text, why) in [
            ("", "begin with"),
            ("registry.example/a", "begin with"),
            ("https://registry.example/a", "registry: or graph:"),
            ("registry:", "nothing follows"),
            ("registry:registry.example/a", "https://HOST/REPO"),
            ("registry:https://registry.example/", "repository is missing"),
            ("registry:https://u:p@registry.example/a", "config.json"),
            ("registry:https://registry.example/A", "lower-case"),
            ("registry:https://registry.example/a?b", "no ?"),
            ("registry:ftp://registry.example/a", "https:// or http://"),
            ("graph:ftp://registry.example/a", "only http"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
