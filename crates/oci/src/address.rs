//! Where a repository is, as people write it.

use reqwest::Url;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} cannot be used: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

impl AddressError {
    pub fn new(text: &str, why: impl Into<String>) -> Self {
        Self { text: text.chars().take(300).collect(), why: why.into() }
    }
}

/// `https://HOST/REPO`.
pub fn registry(text: &str) -> Result<(Url, String), &'static str> {
    let mut url = Url::parse(text).map_err(|_| "write https://HOST/REPO")?;
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
        return Err("the repository is missing: write https://HOST/REPO");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.bytes().all(fits);
    if repository.len() > 255 || !repository.split('/').all(part) {
        return Err("a repository's name has only lower-case letters, digits, and . _ - / between them");
    }
    url.set_path("/");
    Ok((url, repository))
}

/// With a port where it is not the usual one.
pub fn host_of(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}
