//! Digests as images name them: `sha256:` or `sha512:` and lower-case hexadecimal digits.

use std::fmt;

use sha2::{Digest as _, Sha256, Sha512};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Sha256 => 64,
            Self::Sha512 => 128,
        }
    }
}

/// A digest that is well formed: its text is safe as a file name and in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    algorithm: Algorithm,
    hex: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("{0:?} is not a digest: expected sha256: or sha512: and lower-case hexadecimal digits")]
    Malformed(String),
    #[error("the content has the digest {found}, not {wanted}")]
    Differs { wanted: Digest, found: Digest },
}

impl Digest {
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        let malformed = || DigestError::Malformed(text.chars().take(160).collect());
        let (algorithm, hex) = text.split_once(':').ok_or_else(malformed)?;
        let algorithm = match algorithm {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(malformed()),
        };
        // Upper case is another spelling of the same digest; only one may be compared and used as a name.
        let fits = hex.len() == algorithm.digits()
            && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if fits { Ok(Self { algorithm, hex: hex.to_owned() }) } else { Err(malformed()) }
    }

    pub fn of(algorithm: Algorithm, content: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(content);
        hasher.finish()
    }

    pub fn sha256(content: &[u8]) -> Self {
        Self::of(Algorithm::Sha256, content)
    }

    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub fn hex(&self) -> &str {
        &self.hex
    }

    pub fn verify(&self, content: &[u8]) -> Result<(), DigestError> {
        let mut verifier = self.verifier();
        verifier.update(content);
        verifier.finish()
    }

    /// For content that comes in pieces.
    pub fn verifier(&self) -> Verifier {
        Verifier { wanted: self.clone(), hasher: Hasher::new(self.algorithm) }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.as_str(), self.hex)
    }
}

impl std::str::FromStr for Digest {
    type Err = DigestError;
    fn from_str(text: &str) -> Result<Self, DigestError> {
        Self::parse(text)
    }
}

/// Makes a digest of content that comes in pieces.
#[derive(Debug, Clone)]
pub enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    pub fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(piece),
            Self::Sha512(hasher) => hasher.update(piece),
        }
    }

    pub fn finish(self) -> Digest {
        match self {
            Self::Sha256(hasher) => Digest { algorithm: Algorithm::Sha256, hex: hex(&hasher.finalize()) },
            Self::Sha512(hasher) => Digest { algorithm: Algorithm::Sha512, hex: hex(&hasher.finalize()) },
        }
    }
}

/// Content on its way, and the digest that it must have.
#[derive(Debug, Clone)]
pub struct Verifier {
    wanted: Digest,
    hasher: Hasher,
}

impl Verifier {
    pub fn update(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    pub fn finish(self) -> Result<(), DigestError> {
        let found = self.hasher.finish();
        if found == self.wanted { Ok(()) } else { Err(DigestError::Differs { wanted: self.wanted, found }) }
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_read_only_in_their_one_spelling() {
        assert_eq!(Digest::parse(EMPTY).unwrap().to_string(), EMPTY);
        let upper = EMPTY.replace('e', "E");
        let long = format!("{EMPTY}0");
        for text in ["", ":", "sha256:", "sha256", "md5:00", &upper, &long, &EMPTY[..70], "sha256:../x"] {
            assert!(matches!(Digest::parse(text), Err(DigestError::Malformed(_))), "{text:?}");
        }
        assert!(Digest::parse(&format!("sha512:{}", "0f".repeat(64))).is_ok());
    }

    #[test]
    fn content_in_pieces_is_what_its_digest_says_or_is_refused() {
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let digest = Digest::of(algorithm, b"one two three");
            let mut verifier = digest.verifier();
            ["one ", "two ", "three"].iter().for_each(|piece| verifier.update(piece.as_bytes()));
            assert_eq!(verifier.finish(), Ok(()));
            assert!(matches!(digest.verify(b"one two"), Err(DigestError::Differs { .. })));
        }
        assert_eq!(Digest::sha256(b"").to_string(), EMPTY);
    }
}
