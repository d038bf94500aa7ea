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
#[error("{0:?} is not a digest: expected sha256: or sha512: and lower-case hexadecimal digits")]
pub struct BadDigest(String);

impl Digest {
    pub fn parse(text: &str) -> Result<Self, BadDigest> {
        let digits = match text.split_once(':') {
            Some(("sha256", digits)) if digits.len() == 64 => digits,
            Some(("sha512", digits)) if digits.len() == 128 => digits,
            _ => "",
        };
        // Upper case is another spelling of the same digest; only one may be compared and used as a name.
        let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if !digits.is_empty() && digits.bytes().all(hexadecimal) {
            Ok(Self(text.into()))
        } else {
            Err(BadDigest(text.chars().take(150).collect()))
        }
    }

    pub fn sha256(content: &[u8]) -> Self {
        Self(format!("sha256:{}", digits(&Sha256::digest(content))).into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `sha256` and the digits.
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once(':').unwrap_or(("", &self.0))
    }

    /// What the digest of the content is instead, if it is not this one.
    pub fn check(&self, content: &[u8]) -> Result<(), Digest> {
        let mut hasher = self.hasher();
        hasher.update(content);
        let got = hasher.finish();
        if got == *self { Ok(()) } else { Err(got) }
    }

    /// Computes the digest that this one is to be compared with, of content that comes in pieces.
    pub fn hasher(&self) -> Hasher {
        match self.parts().0 {
            "sha512" => Hasher::sha512(),
            _ => Hasher::sha256(),
        }
    }
}

#[derive(Debug, Clone)]
pub enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub fn sha256() -> Self {
        Self::Sha256(Sha256::new())
    }

    pub fn sha512() -> Self {
        Self::Sha512(Sha512::new())
    }

    pub fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(piece),
            Self::Sha512(hasher) => hasher.update(piece),
        }
    }

    pub fn finish(self) -> Digest {
        Digest(match self {
            Self::Sha256(hasher) => format!("sha256:{}", digits(&hasher.finalize())).into(),
            Self::Sha512(hasher) => format!("sha512:{}", digits(&hasher.finalize())).into(),
        })
    }
}

fn digits(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
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

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn only_what_is_safe_in_a_path_is_a_digest_and_only_in_its_one_spelling() {
        assert_eq!(Digest::parse(EMPTY).unwrap().to_string(), EMPTY);
        let (upper, long) = (EMPTY.replace('e', "E"), format!("{EMPTY}0"));
        let climbing = format!("sha256:../{}", "a".repeat(61));
        for text in ["", ":", "sha256:", "sha256", "md5:00", &upper, &long, &EMPTY[..70], &climbing] {
            assert!(Digest::parse(text).is_err(), "{text:?}");
        }
        assert!(Digest::parse(&format!("sha512:{}", "0f".repeat(64))).is_ok());
    }

    #[test]
    fn content_is_what_its_digest_says_in_pieces_too() {
        let empty = Digest::sha256(b"");
        assert_eq!((empty.as_str(), empty.check(b"")), (EMPTY, Ok(())));
        assert_eq!(empty.check(b"x"), Err(Digest::sha256(b"x")));
        for first in
            [&Digest::sha256(b"one two"), &Digest::parse(&format!("sha512:{}", "0".repeat(128))).unwrap()]
        {
            let (mut pieces, mut whole) = (first.hasher(), first.hasher());
            ["one ", "two"].iter().for_each(|piece| pieces.update(piece.as_bytes()));
            whole.update(b"one two");
            assert_eq!(pieces.finish(), whole.finish());
        }
    }
}
