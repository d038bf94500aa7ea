//! Names that people give, which become names of directories.

use std::fmt;

use serde::{Deserialize, Serialize};

/// As names of Kubernetes objects are: lower-case letters, digits and `-`, 63 at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApplianceName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be a name: use lower-case letters, digits and '-', at most 63, beginning with a letter or digit"
)]
pub struct BadName(String);

const LONGEST: usize = 63;

impl ApplianceName {
    pub fn parse(text: &str) -> Result<Self, BadName> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = !text.is_empty()
            && text.len() <= LONGEST
            && text.chars().all(|c| plain(c) || c == '-')
            && text.starts_with(plain)
            && text.ends_with(plain);
        if fits { Ok(Self(text.to_owned())) } else { Err(BadName(text.chars().take(80).collect())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApplianceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for ApplianceName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::parse(text)
    }
}

impl TryFrom<String> for ApplianceName {
    type Error = BadName;
    fn try_from(text: String) -> Result<Self, BadName> {
        Self::parse(&text)
    }
}

impl From<ApplianceName> for String {
    fn from(name: ApplianceName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_anywhere() {
        for good in ["a", "shop-3", "0"] {
            assert!(ApplianceName::parse(good).is_ok(), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "..", "a/b", "A", "-a", "a-", "a b", "a\n", ".a", long.as_str()] {
            assert!(ApplianceName::parse(bad).is_err(), "{bad:?}");
        }
    }
}
