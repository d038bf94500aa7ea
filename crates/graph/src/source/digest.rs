//! The digest of content: what an image is called by, and what everything fetched is checked against.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256, Sha512};

/// `sha256:…` or `sha512:…`, in lower-case hexadecimal digits. Safe as a part of paths and addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a digest: expected sha256: and 64 hexadecimal digits")]
pub struct BadDigest(String);

impl Digest {
    pub fn parse(text: &str) -> Result<Self, BadDigest> {
        let digits = match text.split_once(':') {
            Some(("sha256", digits)) if digits.len() == 64 => digits,
            Some(("sha512", digits)) if digits.len() == 128 => digits,
            _ => "",
        };
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !digits.is_empty() && digits.bytes().all(hexadecimal) {
            Ok(Self(text.into()))
        } else {
            Err(BadDigest(text.chars().take(150).collect()))
        }
    }

    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", digits(&Sha256::digest(bytes))).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `sha256` and the digits.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once(':').unwrap_or(("", &self.0))
    }

    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), Digest> {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        let got = hasher.finish();
        if got == *self { Ok(()) } else { Err(got) }
    }

    /// Computes the digest that this one is to be compared with.
    pub(crate) fn hasher(&self) -> Hasher {
        match self.parts().0 {
            "sha512" => Hasher::Sha512(Sha512::new()),
            _ => Hasher::Sha256(Sha256::new()),
        }
    }
}

pub(crate) enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(match self {
            Self::Sha256(hasher) => format!("sha256:{}", digits(&hasher.finalize())).into(),
            Self::Sha512(hasher) => format!("sha512:{}", digits(&hasher.finalize())).into(),
        })
    }
}

fn digits(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;
    fn try_from(text: String) -> Result<Self, BadDigest> {
        Self::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_safe_in_a_path_is_a_digest() {
        let good = Digest::of(b"");
        assert_eq!(good.as_str(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(Digest::parse(good.as_str()).as_ref(), Ok(&good));
        assert_eq!(good.check(b""), Ok(()));
        assert!(good.check(b"x").is_err());
        let climbing = format!("sha256:../{}", "a".repeat(61));
        let upper = good.as_str().to_uppercase();
        for text in ["", "sha256:", "sha256:ab", "md5:ab", climbing.as_str(), upper.as_str()] {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}
