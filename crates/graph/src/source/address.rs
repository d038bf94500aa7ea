//! Where a source is, as people write it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use oci::address::{AddressError, host_of, registry};
use reqwest::Url;

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
